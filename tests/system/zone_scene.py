# SPDX-License-Identifier: BSD-2-Clause
"""What test_zones.py runs in a network namespace of its own: two links, a neighbour on each.

The same link-local address is there on both, so that only the zone tells them apart.
Prints what became of each request as JSON.
"""

import json
import socket
import subprocess
import sys
import threading

import coap_wire
from coap_wire import PROXY_CRI, PROXY_SCHEME_NUMBER, URI_HOST, URI_PATH, Message, code
from processes import Proxy
from target import cbor, ip_bytes

NEIGHBOUR = "fe80::1:1"


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def link(ours, theirs):
    """A link with us at one end and a neighbour at the other."""
    ip("link", "add", ours, "type", "veth", "peer", "name", theirs)
    for name, address in ((ours, "fe80::9/64"), (theirs, NEIGHBOUR + "/64")):
        ip("link", "set", name, "addrgenmode", "none", "up")
        ip("address", "add", address, "dev", name, "nodad")


class Neighbour:
    """An origin at the link-local address of one interface, which says its name."""

    def __init__(self, name):
        self.name = name
        self.requests = []
        self.sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        self.sock.bind((NEIGHBOUR, 5683, 0, socket.if_nametoindex(name)))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            data, peer = self.sock.recvfrom(65536)
            request = Message.decode(data)
            self.requests.append(request)
            answer = Message(type=coap_wire.ACK, code=code(2, 5), mid=request.mid,
                             token=request.token, payload=self.name.encode())
            self.sock.sendto(answer.encode(), peer)


def cri(*zone):
    return [(PROXY_CRI, cbor([-1, [ip_bytes(NEIGHBOUR), *zone], ["x"]]))]


def main():
    ip("link", "set", "lo", "up")
    link("wpan0", "far0")
    link("wpan1", "far1")
    near = [Neighbour("far0"), Neighbour("far1")]
    index = str(socket.if_nametoindex("wpan1"))
    proxy = Proxy("--set", "proxy.zones=wpan0", "--set", "proxy.zones=wpan1",
                  "--set", "proxy.hop-limit=no", "--set", "log.access=on",
                  listen=("127.0.0.1",))
    requests = {
        "wpan0": cri("wpan0"), "wpan1": cri("wpan1"), "number": cri(index),
        "far0": cri("far0"), "lo": cri("lo"), "none": cri(),
        "uri-host": [(URI_HOST, b"[" + NEIGHBOUR.encode() + b"]"), (URI_PATH, b"x"),
                     (PROXY_SCHEME_NUMBER, b"")],
    }
    results = {}
    with proxy.client() as client:
        for name, options in requests.items():
            answer = client.ask(options)
            results[name] = [answer.code_text, answer.payload.decode()]
    results["options"] = [[number, value.decode()] for number, value in near[0].requests[0].options]
    proxy.stop_cleanly()
    results["log"] = [line for line in proxy.log if line.startswith("answered")]
    child = Proxy("--set", "route all.target=*://*", "--set", "route all.form=proxy-uri",
                  "--set", "route all.via=coap://[%s%%wpan1]" % NEIGHBOUR,
                  "--set", "proxy.hop-limit=no", listen=("127.0.0.1",))
    with child.client() as client:
        answer = client.ask([(PROXY_CRI, cbor([-1, ["sensor", "example"], ["x"]]))])
    results["parent"] = [answer.code_text, answer.payload.decode()]
    results["told"] = [[number, value.decode()] for number, value in near[1].requests[-1].options]
    child.stop_cleanly()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
