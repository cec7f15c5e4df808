# SPDX-License-Identifier: BSD-2-Clause
"""Starting, pinning and asking the programs that compare and soak run. Standard library only."""

import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Every request is to reach the origin: what is measured is forwarding.
WITHOUT_CACHE = ("--set", "cache.max-bytes=0", "--set", "cache.coalesce=no")


class BenchError(Exception):
    """Something that the person at the command line can put right."""


def pinning():
    """(cores of load and origin, cores of the proxy); None each where there is only one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None, None
    return {cores[0]}, {cores[1]}


# Above every ordinary process. nice would not do: it counts within a control group or a
# session only. The kernel keeps 5 % of each second for others (sched(7)): a core that is never
# idle shows that as 50 ms in the tail of its latencies.
REALTIME_PRIORITY = 10


def before_exec(cores, first):
    """What a started program does first of all, or None."""
    def prepare():
        if cores:
            os.sched_setaffinity(0, cores)
        if first:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REALTIME_PRIORITY))
    return prepare if cores or first else None


def free_port():
    """A UDP port that was free a moment ago."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_pair():
    """A port that is free for UDP and TCP, and so is the next: what libcoap wants for coaps."""
    for _ in range(100):
        with contextlib.ExitStack() as stack:
            port = None
            try:
                for offset in (0, 1):
                    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                        sock = stack.enter_context(socket.socket(socket.AF_INET, kind))
                        sock.bind(("127.0.0.1", port + offset if port else 0))
                        port = port or sock.getsockname()[1]
                return port
            except (OSError, OverflowError):
                continue
    raise BenchError("no two ports are free")


class Server:
    """A started program, pinned to some cores; a context manager that ends it."""

    def __init__(self, name, command, cores, log_path, first=False):
        self.name = name
        self.log_path = log_path
        self.log = open(log_path, "ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            preexec_fn=before_exec(cores, first))

    @property
    def pid(self):
        return self.process.pid

    def read_address(self):
        """The "listening ADDRESS" line of coapbench's servers."""
        words = self.process.stdout.readline().decode().split()
        if len(words) != 2 or words[0] != "listening":
            raise BenchError("%s did not start: %s" % (self.name, self.complaint()))
        return words[1]

    def wait_for_ping(self, address, seconds=10.0):
        """Until a CoAP ping (an empty CON) is answered with its RST (RFC 7252 section 4.3)."""
        host, port = address.rsplit(":", 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            probe.settimeout(0.05)
            end = time.monotonic() + seconds
            mid = 0
            while time.monotonic() < end and self.process.poll() is None:
                mid += 1
                try:
                    probe.send(bytes([0x40, 0, mid >> 8 & 255, mid & 255]))
                    if probe.recv(100)[0] >> 4 & 3 == 3:
                        return
                except OSError:  # no server there yet, or no answer in time
                    time.sleep(0.02)
        raise BenchError("%s does not answer on %s: %s" % (self.name, address, self.complaint()))

    def wait_for_connection(self, port, seconds=10.0):
        """Until a TCP connection to that port of the loopback address is taken."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:  # no server there yet
                time.sleep(0.02)
        raise BenchError("%s takes no connection on port %d: %s" % (self.name, port, self.complaint()))

    def complaint(self):
        """The end of what it wrote to standard error: the file is gone when we are."""
        self.log.flush()
        return self.log_path.read_text(errors="replace")[-500:].strip() or "without a word"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.last_words = self.process.stdout.read().decode(errors="replace")
        self.process.stdout.close()
        self.log.close()


def run_load(coapbench, cores, options, patience_s, first=False):
    """coapbench load; its JSON. A wrong answer is a finding, not an error: see the caller."""
    done = subprocess.run([coapbench, "load", "--json", *options], capture_output=True, text=True,
                          timeout=patience_s, preexec_fn=before_exec(cores, first))
    if not done.stdout:
        raise BenchError("coapbench load %s: %s" % (" ".join(options), done.stderr.strip()))
    return json.loads(done.stdout)


def memory_kib(pid):
    """Resident size, and the part of it that is the process's own (private pages)."""
    fields = {}
    for line in pathlib.Path("/proc/%d/smaps_rollup" % pid).read_text().splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB":
            fields[words[0].rstrip(":")] = int(words[1])
    private = fields.get("Private_Clean", 0) + fields.get("Private_Dirty", 0)
    return {"rss_kib": fields.get("Rss", 0), "private_kib": private}


def find_program(given, build, inside, name):
    """The program given, or the one in the build directory; an absolute path or an error."""
    path = pathlib.Path(given) if given else pathlib.Path(build) / inside
    if not os.access(path, os.X_OK):
        raise BenchError("%s: no %s there; build it, or name it with an option" % (path, name))
    return str(path.resolve())


def find_installed(*names):
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    return None


def libcoap_proxy():
    """libcoap's example proxy with DTLS, or None where it is not installed (Debian: libcoap3-bin)."""
    return find_installed("coap-server-openssl")


def libcoap_proxy_command(path, port, key):
    """On that port of loopback, and with DTLS on the next one (free_pair()), for clients with the
    pre-shared key; an empty proxy, so that every request goes straight on."""
    return [path, "-A", "127.0.0.1", "-p", str(port), "-k", key, "-P", ",proxy.invalid", "-v", "2"]


def add_before(parser):
    """The option --before: args.before is the path of another criproxyd, or None."""
    parser.add_argument("--before", metavar="PATH",
                        help="a criproxyd of an older state, measured beside")


def git_commit():
    run = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"],
                         capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "-C", str(ROOT), "status", "--porcelain", "-uno"],
                             capture_output=True, text=True, check=False).stdout.strip()
    return (run.stdout.strip() or "unknown") + ("+changes" if changed else "")


def machine():
    """What a reader has to know to compare figures with theirs."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "commit": git_commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def say(text):
    print(text, file=sys.stderr, flush=True)
