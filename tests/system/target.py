# SPDX-License-Identifier: BSD-2-Clause
"""Targets of requests in each of the four forms, for the system tests.

The CBOR and the CRI here are written down from RFC 8949 and the draft, apart
from libcri, so that the two check each other.
"""

import dataclasses
import ipaddress
import urllib.parse

from coap_wire import (PROXY_CRI, PROXY_SCHEME, PROXY_SCHEME_NUMBER, PROXY_URI, URI_HOST,
                       URI_PATH, URI_PORT, URI_QUERY, uint)

FORMS = ("cri", "number", "uri", "scheme")

SCHEME_NUMBERS = {"coap": 0, "coaps": 1, "http": 2, "https": 3, "urn": 4, "did": 5,
                  "coap+tcp": 6, "coaps+tcp": 7, "coap+ws": 24, "coaps+ws": 25}


def cbor(item):
    """Deterministic CBOR of ints, bytes, texts, lists, None and booleans."""
    if item is None or isinstance(item, bool):
        return {None: b"\xf6", True: b"\xf5", False: b"\xf4"}[item]
    if isinstance(item, int):
        return _head(0, item) if item >= 0 else _head(1, -1 - item)
    if isinstance(item, bytes):
        return _head(2, len(item)) + item
    if isinstance(item, str):
        data = item.encode("utf-8", "surrogateescape")
        return _head(3, len(data)) + data
    return _head(4, len(item)) + b"".join(cbor(part) for part in item)


def _head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    for info, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * width:
            return bytes([major << 5 | info]) + value.to_bytes(width, "big")
    raise ValueError(value)


def ip_bytes(host):
    """The bytes of an address, or None for a name."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return None


@dataclasses.dataclass(frozen=True)
class Target:
    host: str
    port: int = None
    path: tuple = ()
    query: tuple = ()
    scheme: str = "coap"

    @property
    def cri(self):
        address = ip_bytes(self.host)
        authority = [address] if address else self.host.split(".")
        if self.port is not None:
            authority.append(self.port)
        items = [-1 - SCHEME_NUMBERS[self.scheme], authority, list(self.path), list(self.query)]
        while len(items) > 2 and items[-1] == []:
            items.pop()
        return cbor(items)

    @property
    def host_text(self):
        return "[%s]" % self.host if ":" in self.host else self.host

    @property
    def uri(self):
        text = "%s://%s" % (self.scheme, self.host_text)
        if self.port is not None:
            text += ":%d" % self.port
        quote = lambda part: urllib.parse.quote(part, safe="")
        text += "".join("/" + quote(segment) for segment in self.path)
        if self.query:
            text += "?" + "&".join(quote(parameter) for parameter in self.query)
        return text

    @property
    def path_options(self):
        # A lone empty segment is the root, which has no option (RFC 7252 section 6.4).
        path = () if self.path == ("",) else self.path
        return [(URI_PATH, segment.encode()) for segment in path] + \
            [(URI_QUERY, parameter.encode()) for parameter in self.query]

    @property
    def uri_options(self):
        options = [(URI_HOST, self.host_text.encode())]
        if self.port is not None:
            options.append((URI_PORT, uint(self.port)))
        return options + self.path_options

    def options(self, form):
        """What a request for this target carries in that form."""
        if form == "cri":
            return [(PROXY_CRI, self.cri)]
        if form == "uri":
            return [(PROXY_URI, self.uri.encode())]
        if form == "number":
            number = uint(SCHEME_NUMBERS[self.scheme])
            return self.uri_options + [(PROXY_SCHEME_NUMBER, number)]
        return self.uri_options + [(PROXY_SCHEME, self.scheme.encode())]

    @property
    def at_origin(self):
        """What arrives at the origin server, asked directly on its own port.

        A name always travels as Uri-Host, an address that the datagram goes to
        never does, nor does the port (draft section 8.1.1, TGT-15).
        """
        host = [] if ip_bytes(self.host) else [(URI_HOST, self.host.encode())]
        return host + self.path_options
