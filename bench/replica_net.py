# SPDX-License-Identifier: BSD-2-Clause
"""Replicas behind a balancer, each in a network namespace of its own, on one machine. For
bench/replicas and tests/system/test_balancers.py; needs root, ip(8), and nft(8) or nginx.

    clients 203.0.113.2 --- 203.0.113.1 balancer 198.51.100.1 --- bridge --- replicas 198.51.100.11..13
                                 192.0.2.1                              `--- 198.51.100.7: Redis, origin

Nothing leaves the namespaces: none of them has a way out. What balances is what
docs/examples/replicas has to copy.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "examples" / "replicas"
ADDRESS = "192.0.2.1"
BACK = "198.51.100.7"
REPLICAS = tuple("198.51.100.%d" % (11 + number) for number in range(3))
NGINX_MODULE = "/usr/lib/nginx/modules/ngx_stream_module.so"
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def find(name):
    return shutil.which(name, path=PATH)


def lacks(balancer):
    """Why it cannot be done here, or None."""
    for name in ("unshare", "nsenter", "ip", "nft", "curl", *(("nginx",) if balancer == "nginx" else ())):
        if find(name) is None:
            return "%s is not installed" % name
    if balancer == "nginx" and not os.path.exists(NGINX_MODULE):
        return "nginx has no stream module"
    if os.geteuid() != 0:
        return "network namespaces need root"
    done = subprocess.run(["unshare", "--net", "sh", "-c",
                           "ip link add one type veth peer name other && nft add table ip t"],
                          capture_output=True, text=True, timeout=20, check=False,
                          env=dict(os.environ, PATH=PATH))
    return None if done.returncode == 0 else done.stderr.strip() or "no network namespaces"


class Space:
    """A network namespace, as long as a process of its own lives."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "sleep", "3600"])
        own = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + 10
        while os.readlink("/proc/%d/ns/net" % self.holder.pid) == own:
            if time.monotonic() > end:
                raise RuntimeError("unshare makes no namespace")
            time.sleep(0.01)

    def command(self, *words):
        return [find("nsenter"), "--target", str(self.holder.pid), "--net", *map(str, words)]

    def run(self, *words):
        done = subprocess.run(self.command(*words), capture_output=True, text=True, timeout=60,
                              check=False, env=dict(os.environ, PATH=PATH))
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (" ".join(map(str, words)), done.stderr.strip()))
        return done.stdout

    def start(self, *words, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(self.command(*words), env=dict(os.environ, PATH=PATH), **more)

    def call(self, function, *arguments):
        """What @function returns, called in a thread that is in here: sockets that it opens are, too."""
        results = []

        def enter():
            with open("/proc/%d/ns/net" % self.holder.pid) as there:
                if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), 0) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            results.append(function(*arguments))

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        return results[0]

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Net:
    def __init__(self):
        self.spaces = []
        self.clients, self.balancer, self.back, *self.replicas = (
            self._space() for _ in range(3 + len(REPLICAS)))
        b = self.balancer
        for key in ("net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv4.conf.default.rp_filter=0"):
            path = "/proc/sys/" + key.split("=")[0].replace(".", "/")
            b.run("sh", "-c", "echo %s >%s" % (key.split("=")[1], path))
        b.run("ip", "address", "add", ADDRESS + "/32", "dev", "lo")
        b.run("ip", "link", "add", "inside", "type", "bridge")
        b.run("ip", "link", "set", "inside", "up")
        b.run("ip", "address", "add", "198.51.100.1/24", "dev", "inside")
        self._join(self.clients, "clients", "203.0.113.2", "203.0.113.1")
        b.run("ip", "address", "add", "203.0.113.1/24", "dev", "clients")
        self._join(self.back, "back", BACK, "198.51.100.1")
        b.run("ip", "link", "set", "back", "master", "inside")
        for number, (space, address) in enumerate(zip(self.replicas, REPLICAS)):
            self._join(space, "r%d" % number, address, "198.51.100.1")
            b.run("ip", "link", "set", "r%d" % number, "master", "inside")

    def _space(self):
        space = Space()
        self.spaces.append(space)
        space.run("ip", "link", "set", "lo", "up")
        return space

    def _join(self, space, name, address, gateway):
        self.balancer.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0",
                          "netns", space.holder.pid)
        self.balancer.run("ip", "link", "set", name, "up")
        space.run("ip", "address", "add", address + "/24", "dev", "eth0")
        space.run("ip", "link", "set", "eth0", "up")
        space.run("ip", "route", "add", "default", "via", gateway)

    def change_clients_address(self, number):
        """Those that are started now have another address: what came from the same port before, with the same
        message ID, would count as the same message for 247 s (RFC 7252 section 4.4)."""
        address = "203.0.113.%d" % (2 + number)
        if number > 0:
            self.clients.run("ip", "address", "add", address + "/24", "dev", "eth0")
        self.clients.run("ip", "route", "replace", "default", "via", "203.0.113.1", "src", address)

    def cut(self, number, is_cut=True):
        """Takes a replica's cable out, or puts it in again."""
        self.balancer.run("ip", "link", "set", "r%d" % number, "down" if is_cut else "up")

    def close(self):
        for space in self.spaces:
            space.close()


class Processes:
    """Started programs, which end with it."""

    def __init__(self, folder):
        self.folder, self.running = folder, []

    def start(self, space, name, *words):
        with open(self.folder / (name + ".log"), "ab") as log:
            process = space.start(*words, stdout=log, stderr=subprocess.STDOUT)
        self.running.append(process)
        return process

    def log(self, name):
        return (self.folder / (name + ".log")).read_text(errors="replace")

    @staticmethod
    def end(process, how=signal.SIGTERM):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self):
        for process in reversed(self.running):
            self.end(process)
        with contextlib.suppress(OSError, ValueError):  # nginx has left its starter
            os.kill(int((self.folder / "nginx.pid").read_text()), signal.SIGTERM)


def balance(net, processes, balancer):
    """Starts what balances; it notices by itself which replicas are there."""
    if balancer == "nginx":
        net.balancer.run(EXAMPLES / "nginx-return.sh")
        configuration = processes.folder / "nginx.conf"
        configuration.write_text((EXAMPLES / "nginx.conf").read_text().replace(
            "/run/criproxy-nginx.pid", "%s/nginx.pid" % processes.folder))
        what = ("nginx", configuration)
    else:
        what = ("nftables", ADDRESS)
    return processes.start(net.balancer, "balancer", "env", "COPY=%s/copy.conf" % processes.folder,
                           "OUT=%s/out" % processes.folder, EXAMPLES / "balance.sh", *what, *REPLICAS)


class Cluster:
    """Three replicas behind a balancer, with Redis and an origin server behind them.

    @programs: paths of criproxyd and of the Redis or Valkey server; @settings: SECTION.KEY=VALUE
    """

    def __init__(self, folder, programs, balancer, settings=(), shared=True):
        self.stack = contextlib.ExitStack()
        self.folder = folder
        self.programs, self.settings = programs, settings
        self.is_shared, self.balancer = shared, balancer
        try:
            self._start()
        except BaseException:
            self.stack.close()
            raise

    def _start(self):
        self.net = Net()
        self.stack.callback(self.net.close)
        self.processes = Processes(self.folder)
        self.stack.callback(self.processes.close)
        (self.folder / "secret").write_text("4a" * 32)
        (self.folder / "keys").write_text("sensor:%s\n" % b"0123456789abcdef".hex())
        for name in ("secret", "keys"):
            (self.folder / name).chmod(0o600)
        if self.is_shared:
            self.start_redis()
        self.replicas = [None] * len(REPLICAS)
        for number in range(len(REPLICAS)):
            self.start_replica(number)
        for number in range(len(REPLICAS)):
            self.wait_for_replica(number)
        balance(self.net, self.processes, self.balancer)
        self.wait_until(lambda: self.balances(), "the balancer")

    def balances(self):
        rules = self.net.balancer.run("nft", "list", "ruleset")
        if self.balancer == "nginx":
            return (self.folder / "nginx.pid").exists()
        return all(replica in rules for replica in REPLICAS)

    @staticmethod
    def wait_until(condition, what, seconds=30.0):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError("in vain for %s" % what)
            time.sleep(0.05)

    def start_redis(self):
        self.redis = self.processes.start(
            self.net.back, "redis", self.programs["redis"], "--bind", BACK, "--protected-mode", "no",
            "--save", "", "--appendonly", "no", "--dir", self.folder, "--maxmemory-policy",
            "noeviction")

    def start_replica(self, number):
        address = REPLICAS[number]
        shared = ("cache.shared=redis://%s:6379" % BACK,) if self.is_shared else ()
        words = []
        for setting in ("policy.clients=any", "policy.ports=any", "policy.echo-exempt=any",
                        "policy.targets=allow", "admin.listen=http://%s:9684" % address,
                        "admin.socket=%s/control%d" % (self.folder, number),
                        "cluster.secret-file=%s/secret" % self.folder,
                        "tls.psk-file=%s/keys" % self.folder, *shared, *self.settings):
            words += ["--set", setting]
        self.replicas[number] = self.processes.start(
            self.net.replicas[number], "replica%d" % number, self.programs["criproxyd"],
            "--listen", "coap://%s:5683" % address, "--listen", "coaps://%s:5684" % address, *words)

    def ready(self, number):
        with contextlib.suppress(RuntimeError):
            self.net.balancer.run("curl", "-fs", "-m", "1", "-o", os.devnull,
                                  "http://%s:9684/readyz" % REPLICAS[number])
            return True
        if self.replicas[number].poll() is not None:
            raise RuntimeError("a replica has ended: " + self.processes.log("replica%d" % number)[-500:])
        return False

    def wait_for_replica(self, number):
        self.wait_until(lambda: self.ready(number), "replica %d" % number)
        if self.is_shared:
            self.wait_until(lambda: self.metric(number, "cache_shared_up") > 0, "the channel")

    def metric(self, number, name):
        """Summed over labels; 0 where it cannot be asked."""
        try:
            text = self.net.balancer.run("curl", "-fs", "-m", "2",
                                         "http://%s:9684/metrics" % REPLICAS[number])
        except RuntimeError:
            return 0
        total = 0.0
        for line in text.splitlines():
            if line.split("{")[0].split(" ")[0] in ("criproxyd_" + name, "criproxyd_" + name + "_total"):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def metrics(self, name):
        return sum(self.metric(number, name) for number in range(len(REPLICAS)))

    def control(self, number, *words):
        return subprocess.run([self.programs["criproxyctl"], "-s", "%s/control%d" % (
            self.folder, number), *words], capture_output=True, text=True, timeout=30, check=True).stdout

    def start_origin(self, coapbench, max_age):
        """coapbench's, at BACK:5683; it counts what it was asked when it ends."""
        origin = self.processes.start(self.net.back, "origin", coapbench, "origin", "--allow-remote",
                                      "--listen", BACK + ":5683", "--max-age", max_age)
        self.wait_until(lambda: "listening" in self.processes.log("origin"), "the origin server")
        return origin

    def load(self, coapbench, *options):
        """A running coapbench load; load_result() waits for it."""
        return self.net.clients.start(
            coapbench, "load", "--allow-remote", "--own-sockets", "--json", "--log-lost", *options,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def load_result(load, patience_s=200):
        text, complaint = load.communicate(timeout=patience_s)
        if not text:
            raise RuntimeError("coapbench: " + complaint)
        return {**json.loads(text), "lost_lines": complaint.splitlines()}

    def close(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
