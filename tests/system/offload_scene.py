# SPDX-License-Identifier: BSD-2-Clause
"""What test_offload.py runs in a network namespace of its own: the proxy at one end of a link, and
at the other, in a second namespace, a client that asks in bursts, an origin server, and a capture.

    offload_scene.py MTU SEGMENTS PATH LONG SETTING...

With 1 for SEGMENTS the link takes single datagrams only, as a card without offload does. PATH is
the MTU of a second link, if it is less: then a router in a third namespace is between the two; ends
with NO_ROUTER where none can be made. A representation has LONG bytes.

A first burst uploads such. For the next the client loses one datagram of seven; then comes a burst
without loss, each request for another resource: in which order the origin server got those and the
client their answers. Of a last burst every other request is for a port that has no server: the ICMP
errors are for those alone. Prints what was asked, what came, and counters, as JSON.
"""

import contextlib
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

from admin_wire import http, http_place
from coap_wire import PATIENCE_S, CON, GET, PUT, Message, code, family_of
from processes import Proxy
from target import Target

NEAR = {socket.AF_INET: "10.9.0.1", socket.AF_INET6: "fd09::1"}
FAR = {socket.AF_INET: "10.9.0.2", socket.AF_INET6: "fd09::2"}
SOL_UDP, UDP_SEGMENT = 17, 103
ROUTER = {socket.AF_INET: "10.9.0.3", socket.AF_INET6: "fd09::3"}
BURST, ROUNDS, RESOURCES, UPLOADS = 48, 4, 8, 16
NO_ROUTER = 77


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def families(path):
    """IPv6 needs 1,280 bytes (RFC 8200 section 5)."""
    return [socket.AF_INET, socket.AF_INET6] if int(path) >= 1280 else [socket.AF_INET]


def set_up(name, addresses, path, peers):
    """An interface, and the way to @peers by the router if there is one."""
    ip("link", "set", "lo", "up")
    ip("link", "set", name, "up")
    for family in families(path):
        more = ("/64", "nodad") if family == socket.AF_INET6 else ("/24",)
        ip("address", "add", addresses[family] + more[0], "dev", name, *more[1:])
        if peers:
            ip("route", "add", peers[family], "via", ROUTER[family])


# ---- the router ----

def route(path):
    """Between near1 and far1, until stdin ends."""
    print("here", flush=True)
    sys.stdin.readline()
    try:
        for name in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            pathlib.Path("/proc/sys", name).write_text("1")
    except OSError:  # a container's /proc/sys may be for reading only
        print("cannot", flush=True)
        return
    for name, peers in (("near1", NEAR), ("far1", FAR)):
        ip("link", "set", name, "up")
        for family in families(path):
            ip("address", "add", ROUTER[family], "dev", name,
               *(["nodad"] if family == socket.AF_INET6 else []))
            ip("route", "add", peers[family], "dev", name)
    print("ready", flush=True)
    sys.stdin.read()


# ---- the far end ----

def body(path, long):
    """Of one length, so that answers may leave together, and unlike any other's."""
    return (path.encode() + b".") * (long // (len(path) + 1))


def serve(sock, came, long):
    while True:
        data, peer = sock.recvfrom(65536)
        request = Message.decode(data)
        path = request.values(11)[0].decode()
        if path not in came:
            came.append(path)
        is_right = request.payload == (b"" if request.code == GET else body(path, long))
        answer = Message(type=2, code=code(2, 5) if is_right else code(4, 0), mid=request.mid,
                         token=request.token, payload=body(path, long))
        sock.sendto(answer.encode(), peer)


class Capture(threading.Thread):
    """The longest packet that has come from the proxy, and fragments."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest = self.fragments = 0
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.sock.bind(("far0", 3))

    def run(self):
        while True:
            data, where = self.sock.recvfrom(65536)
            if where[2] == socket.PACKET_OUTGOING:
                continue
            self.longest = max(self.longest, len(data))
            if data[0] >> 4 == 4:
                self.fragments += struct.unpack("!H", data[6:8])[0] & 0x3FFF != 0
            elif data[0] >> 4 == 6:
                self.fragments += data[6] == 44


def send_burst(sock, messages):
    """As one message where the kernel does that, else one by one."""
    try:
        sock.sendmsg(messages, [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", len(messages[0])))])
    except OSError:
        for message in messages:
            sock.send(message)


def ask_in_bursts(host, port, long, wrong):
    """Rounds of requests, each repeated until it is answered. @return answers by resource"""
    counts = {}
    seen = 0
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as sock:
        sock.connect((host, port))
        for turn in range(ROUNDS):
            waiting = {}
            for number in range(BURST):
                path = "r%d" % (number % RESOURCES)
                mid = turn * BURST + number
                options = Target(FAR[family_of(host)], 5683, (path,)).options("cri")
                message = Message(type=CON, code=GET, mid=mid, token=struct.pack("!I", mid),
                                  options=options)
                waiting[message.token] = (path, message.encode())
            deadline = time.monotonic() + PATIENCE_S
            while waiting and time.monotonic() < deadline:
                send_burst(sock, [data for _, data in waiting.values()])
                sock.settimeout(0.2)
                try:
                    while waiting:
                        answer = Message.decode(sock.recv(65536))
                        seen += 1
                        if seen % 7 == 0:
                            continue  # lost: what is acknowledged does not come again
                        if answer.type == CON:
                            sock.send(Message(type=2, code=0, mid=answer.mid).encode())
                        if answer.token not in waiting or answer.code == 0:
                            continue
                        path, _ = waiting.pop(answer.token)
                        wrong += answer.code != code(2, 5) or answer.payload != body(path, long)
                        counts[path] = counts.get(path, 0) + 1
                except TimeoutError:
                    pass
    return counts, wrong


def ask_once(host, port, targets, payload=lambda path: b""):
    """One burst of a request for each of @targets, (path, port), until all are answered, without
    loss; PUT if there is a payload. @return [path, code] in the order in which answers came"""
    answers = []
    with socket.socket(family_of(host), socket.SOCK_DGRAM) as sock:
        sock.connect((host, port))
        waiting = {}
        for number, (path, server) in enumerate(targets):
            options = Target(FAR[family_of(host)], server, (path,)).options("cri")
            token = struct.pack("!I", number)
            waiting[token] = (path, Message(type=CON, code=PUT if payload(path) else GET, mid=number,
                                            token=token, options=options,
                                            payload=payload(path)).encode())
        sock.settimeout(2)
        deadline = time.monotonic() + 2 * PATIENCE_S
        send_burst(sock, [data for _, data in waiting.values()])
        while waiting and time.monotonic() < deadline:
            try:
                answer = Message.decode(sock.recv(65536))
            except TimeoutError:
                continue
            if answer.type == CON:
                sock.send(Message(type=2, code=0, mid=answer.mid).encode())
            if answer.token in waiting and answer.code != 0:
                path, _ = waiting.pop(answer.token)
                answers.append([path, "%d.%02d" % (answer.code >> 5, answer.code & 31)])
    return answers


def each_has_its_error():
    """No limit for ICMP errors here. @return whether it could be lifted"""
    try:
        for name in ("net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"):
            pathlib.Path("/proc/sys", name).write_text("0")
    except OSError:  # a container's /proc/sys may be for reading only
        return False
    return True


def far(path, long, has_router):
    print("here", flush=True)
    ports = json.loads(sys.stdin.readline())
    set_up("far0", FAR, path, NEAR if has_router else None)
    capture = Capture()
    capture.start()
    has_errors = each_has_its_error()
    came = {}
    for family in families(path):
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind((FAR[family], 5683))
        came[NEAR[family]] = []
        threading.Thread(target=serve, args=(sock, came[NEAR[family]], long), daemon=True).start()
    answers, uploads, wrong = {}, {}, 0
    for host, port in ports:
        uploads[host] = ask_once(host, port, [("u%02d" % i, 5683) for i in range(UPLOADS)],
                                 lambda path: body(path, long))
        answers[host], wrong = ask_in_bursts(host, port, long, wrong)
    in_order, refused = {}, {}
    for host, port in ports:
        came[host].clear()
        in_order[host] = ask_once(host, port, [("o%02d" % i, 5683) for i in range(BURST)])
        if has_errors:
            refused[host] = ask_once(host, port, [("p%02d" % i, 5683 + i % 2) for i in range(BURST)])
        came[host] = [path for path in came[host] if path[0] == "o"]
    print(json.dumps({"answers": answers, "wrong": wrong, "longest": capture.longest,
                      "fragments": capture.fragments, "in_order": in_order, "came": came,
                      "refused": refused, "has_errors": has_errors, "uploads": uploads}), flush=True)


# ---- the near end ----

def counters(running, names):
    text = http(http_place(running), "/metrics")[2]
    found = {}
    for name in names:
        found[name] = sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                          if line.startswith("criproxyd_%s_total" % name))
    return found


@contextlib.contextmanager
def elsewhere(*arguments):
    """This script in a namespace of its own."""
    with subprocess.Popen(["unshare", "--net", sys.executable, __file__, *arguments], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == "here\n"
        yield child


def say(child, line):
    child.stdin.write(line + "\n")
    child.stdin.flush()


def link(name, mtu, segments, peer):
    ip("link", "add", name, "mtu", mtu, "gso_max_segs", segments, "type", "veth",
       "peer", "name", peer, "mtu", mtu)


def set_up_links(stack, mtu, segments, path, child):
    """near0 - far0, or near0 - near1 and far1 - far0: groups are cut before far1."""
    if path == mtu:
        link("near0", mtu, segments, "far0")
    else:
        router = stack.enter_context(elsewhere("router", path))
        link("near0", mtu, segments, "near1")
        link("far1", path, "1", "far0")
        for name in ("near1", "far1"):
            ip("link", "set", name, "netns", str(router.pid))
        say(router, "")
        if router.stdout.readline() == "cannot\n":
            sys.exit(NO_ROUTER)
    ip("link", "set", "far0", "netns", str(child.pid))
    set_up("near0", NEAR, path, None if path == mtu else FAR)


def packets_too_big():
    """ICMPv6 errors of this name that have come from a router."""
    lines = pathlib.Path("/proc/net/snmp6").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.split()[0] == "Icmp6InPktTooBigs")


def near(mtu, segments, path, long, settings):
    with contextlib.ExitStack() as stack:
        child = stack.enter_context(elsewhere("far", path, long, str(int(path != mtu))))
        set_up_links(stack, mtu, segments, path, child)
        hosts = [NEAR[family] for family in families(path)]
        arguments = [word for setting in settings for word in ("--set", setting)]
        running = Proxy("--set", "cache.max-bytes=1MiB", "--set", "proxy.workers=1",
                        "--set", "policy.echo-exempt=private", "--set",
                        "policy.echo-exempt=unique-local", "--set", "admin.listen=http://127.0.0.1:0",
                        # A group that a link takes whole is told of a closed port once, and what
                        # is not told is sent again.
                        "--set", "scheme coap.congestion-control=window", "--set",
                        "scheme coap.ack-timeout=500ms", *arguments, listen=tuple(hosts))
        say(child, json.dumps([running.address(host) for host in hosts]))
        results = json.loads(child.stdout.readline())
        results["counters"] = counters(running, ("gso_datagrams", "gso_messages", "gso_refusals",
                                                 "gro_datagrams", "gro_messages"))
        results["too_big"] = packets_too_big()
        running.stop_cleanly()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    # All on one processor: the link has a queue for each, and keeps the order within one.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if sys.argv[1] == "far":
        far(sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1")
    elif sys.argv[1] == "router":
        route(sys.argv[2])
    else:
        near(*sys.argv[1:5], sys.argv[5:])
