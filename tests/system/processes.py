# SPDX-License-Identifier: BSD-2-Clause
"""The processes that the system tests run: criproxyd and libcoap's two tools.

Each is started with a port that is free, awaited by what it prints or binds, and
ended by its own process id.
"""

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref

from coap_wire import PATIENCE_S, Client, family_of
from ports import free_port

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def program(name):
    """criproxyd, cri, ...: what CMake says it built, else the asan preset's."""
    folder = {"criproxyd": "daemon", "criproxyctl": "daemon/ctl", "cri": "tools",
              "coapbench": "tools/coapbench", "coapcheck": "tools/coapcheck",
              "coap-traceroute": "tools/traceroute"}[name]
    default = os.path.join(ROOT, "build", "asan", folder, name)
    return os.environ.get(name.upper().replace("-", "_"), default)


def libcoap_tool(name):
    """coap-client or coap-server, under one of the names that Debian gives them."""
    for candidate in (name + "-notls", name, name + "-openssl", name + "-gnutls"):
        path = shutil.which(candidate)
        if path:
            return path
    return None


# Puts the sockets where they have to be and becomes the daemon, as the manager does.
LAUNCHER = r"""
import os, sys
fds, names, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
fds = [os.dup2(int(fd), 100 + i) for i, fd in enumerate(fds.split(","))]
for i, fd in enumerate(fds):
    os.dup2(fd, 3 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
os.execv(rest[0], rest)
"""

# Most tests ask one origin server for the same again and want to see what it is asked.
WITHOUT_CACHE = ("--set", "cache.max-bytes=0", "--set", "cache.coalesce=no")


def wait_until(condition, what=None, patience_s=PATIENCE_S):
    """The first true value of condition(), awaited: for what nothing tells of, as the
    counters, which a worker publishes once it has answered."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, \
            "not within %s s: %s" % (patience_s, what() if callable(what) else what or condition)
        select.select([], [], [], 0.02)  # nothing tells; the deadline alone is a time


TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ", re.M)


def without_time(text):
    """Lines of the log without the time that each begins with."""
    return TIME.sub("", text)


class Proxy:
    """A running criproxyd, without cache unless an argument says something about it.

    A wait for a line of its log finds none that was there before the test began, or
    before a mark that the test set, but for the lines of its start, which stay true.
    """

    alive = weakref.WeakSet()

    def __init__(self, *arguments, listen=("127.0.0.1", "::1"), cache=None,
                 environment=None, binary=None, pass_fds=()):
        command = list(binary) if isinstance(binary, tuple) else [binary or program("criproxyd")]
        for host in listen:
            command += ["--listen", "coap://%s:0" % ("[%s]" % host if ":" in host else host)]
        if cache is None and not any("cache." in argument for argument in arguments):
            command += WITHOUT_CACHE
        command += arguments
        self.log = []
        self._started = self._since = 0
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", env=environment,
            **({"pass_fds": pass_fds} if pass_fds else {}))
        # The daemon leaves out lines that the pipe has no room for.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.process.stdout, fcntl.F_SETPIPE_SZ, 1 << 20)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.wait_for_line(r"^ready\b")
        except AssertionError:
            self.process.kill()
            raise
        self._started = 1 + next(i for i, line in enumerate(self.log) if line.startswith("ready"))
        Proxy.alive.add(self)
        self.addresses = {}
        for line in self.log:
            match = re.match(r"listening\b.*\buri=\"?coap://(\[([^\]]+)\]|([^:/]+)):(\d+)", line)
            if match:
                host = match[2] or match[3]
                self.addresses.setdefault(family_of(host), (host, int(match[4])))
        assert not listen or len(self.addresses) == len(listen), self.text

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.log.append(without_time(line.rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self.log.append("[end of output]")
            self._changed.notify_all()

    @property
    def text(self):
        return "\n".join(self.log)

    def mark(self):
        """From here on waiting looks at new lines only. Once for each test without its doing
        (conftest.py); in a test, before each step that logs what an earlier one has logged."""
        self._since = len(self.log)

    def _matching(self, pattern):
        lines = self.log[:self._started] + self.log[max(self._since, self._started):]
        return [line for line in lines if re.search(pattern, line)]

    def wait_for_line(self, pattern, patience_s=PATIENCE_S):
        """The first line since the mark that matches, awaited."""
        return self.wait_for_count(pattern, 1, patience_s)[0]

    def wait_for_count(self, pattern, count, patience_s=PATIENCE_S):
        """So many lines since the mark that match, awaited."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._matching(pattern)) >= count or "[end of output]" in self.log,
                patience_s)
            found = self._matching(pattern)
        assert len(found) >= count, "%d of %d lines match %r in:\n%s\nof which since the mark:\n%s" % (
            len(found), count, pattern, self.text, "\n".join(self.log[self._since:]))
        return found

    def port(self, scheme):
        """Of its listener for that scheme that was opened last."""
        return int(re.findall(r"^listening\b.*\buri=\"?%s://.*:(\d+)" % re.escape(scheme),
                              self.text, re.M)[-1])

    def reload(self, line=r"^reloaded\b"):
        """SIGHUP, and the line that ends it: every worker goes by the new configuration then."""
        self.mark()
        self.process.send_signal(signal.SIGHUP)
        self.wait_for_line(line)

    def address(self, host="127.0.0.1"):
        return self.addresses[family_of(host)]

    def client(self, host="127.0.0.1", source=None):
        return Client(self.address(host), source)

    def assert_alive(self):
        """It still answers a ping, after whatever was sent to it before."""
        with self.client() as client:
            client.ping()
        assert self.process.poll() is None, self.text

    def stop(self):
        """SIGTERM; the exit status, 0 after a stop without a sanitizer's complaint."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("no end within %s s of SIGTERM:\n%s" % (PATIENCE_S, self.text))
        finally:
            self._reader.join(PATIENCE_S)
            self.process.stdout.close()
        return status

    def stop_cleanly(self):
        status = self.stop()
        assert status == 0, "exit status %d:\n%s" % (status, self.text)
        for word in ("ERROR: ", "runtime error:", "WARNING: ThreadSanitizer"):
            assert word not in self.text, self.text


def run_criproxyd(*arguments, patience_s=PATIENCE_S):
    """Runs criproxyd to its end; for what does not serve."""
    done = subprocess.run(
        [program("criproxyd"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=patience_s, check=False)
    done.stderr = without_time(done.stderr)
    return done


class CoapServer:
    """libcoap's coap-server on a free port of one address."""

    def __init__(self, host="127.0.0.1", *arguments, tool=None):
        self.host = host
        for _ in range(20):
            self.port = free_port(host, 2)  # it takes the next one for coaps
            # It gives up or binds at once; in the rare race for the port, once more.
            self.process = subprocess.Popen(
                [tool or libcoap_tool("coap-server"), "-A", host, "-p", str(self.port), "-d", "100",
                 *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self._answers():
                return
            self.stop()
        raise AssertionError("coap-server does not come up")

    def _answers(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with Client((self.host, self.port)) as client:
                mid = client.next_mid()
                try:
                    client.send(bytes([0x40, 0, mid >> 8, mid & 255]))
                    client.receive(0.1)
                    return True
                except ConnectionError:
                    select.select([], [], [], 0.02)  # not bound yet: look again soon
                except TimeoutError:
                    pass
        return False

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)


class CoapAnswer:
    """What libcoap's coap-client sent and got, read from its debug output."""

    def __init__(self, output, payload):
        self.output = output
        self.payload = payload
        self.sent = None
        self.code = None
        self.options = None
        incoming = False
        for line in output.splitlines():
            # 4.3.1 says "received 19 bytes", later versions "recv   19 bytes".
            way = re.search(r"\b(sent|recv|received) +\d+ bytes", line)
            if way:
                incoming = way[1] != "sent"
            # Over TCP 4.3.4 says "v:Reliable" and no message ID.
            match = re.match(r"v:(?:1 t:\w+|Reliable) c:(\S+) (?:i:\w+ )?\{\w*\} \[(.*?)\](?: ::|$)",
                             line)
            if match and not incoming and self.sent is None:
                self.sent = match[2].strip()
            elif match and incoming and match[1] != "0.00":
                self.code = match[1]
                self.options = match[2].strip()


# What coap-client 4.3.1 says and then waits for ever: the first block of a body came in a message
# of its own, as it does where a machine stalls for longer than ack-delay.
GIVES_UP = b"large body receive internal issue"


def coap_client(*arguments, wait_s=PATIENCE_S):
    """Runs libcoap's coap-client and reads its answer; again where it can but give up."""
    for _ in range(5):
        answer = _coap_client_once(arguments, wait_s)
        if GIVES_UP.decode() not in answer.output:
            break
    return answer


def _coap_client_once(arguments, wait_s):
    with tempfile.NamedTemporaryFile() as file:
        # Error responses have no body in the file: they are in the debug output.
        command = [libcoap_tool("coap-client"), "-v", "7", "-B", str(int(wait_s)),
                   "-o", file.name, *arguments]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            alarm = threading.Timer(wait_s + PATIENCE_S, process.kill)
            alarm.start()
            lines = []
            for line in process.stdout:
                lines.append(line)
                if GIVES_UP in line:
                    process.kill()
            alarm.cancel()
        answer = CoapAnswer(b"".join(lines).decode("utf-8", "replace"), file.read())
    answer.command = command
    return answer
