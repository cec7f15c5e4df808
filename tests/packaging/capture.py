# SPDX-License-Identifier: BSD-2-Clause
"""CoAP messages in a capture file, written byte by byte: packets of raw IPv4 (pcap link
type 101) from 192.0.2.1 to 192.0.2.2, over UDP or TCP."""

import struct

LINKTYPE_RAW = 101
CLIENT, SERVER = bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2))
CLIENT_PORT, COAP_PORT = 40000, 5683
UDP, TCP = 17, 6


def extended(number):
    """The nibble of a delta or length, and what follows it (RFC 7252 section 3.1)."""
    if number < 13:
        return number, b""
    if number < 269:
        return 13, bytes((number - 13,))
    return 14, struct.pack(">H", number - 269)


def options(pairs):
    encoded, last = b"", 0
    for number, value in sorted(pairs, key=lambda pair: pair[0]):
        delta, delta_more = extended(number - last)
        length, length_more = extended(len(value))
        encoded += bytes((delta << 4 | length,)) + delta_more + length_more + value
        last = number
    return encoded


def body(pairs, payload):
    return options(pairs) + (b"\xff" + payload if payload else b"")


def datagram(code, message_id, pairs, payload=b""):
    token = struct.pack(">H", message_id)
    return bytes((0x42, code)) + struct.pack(">H", message_id) + token + body(pairs, payload)


def framed(code, token, pairs, payload=b""):
    """As on TCP (RFC 8323 section 3.2)."""
    rest = body(pairs, payload)
    length, more = extended(len(rest))
    return bytes((length << 4 | len(token),)) + more + bytes((code,)) + token + rest


def ipv4(protocol, content):
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(content), 1, 0, 64, protocol, 0,
                       CLIENT, SERVER) + content


def over_udp(message):
    return ipv4(UDP, struct.pack(">HHHH", CLIENT_PORT, COAP_PORT, 8 + len(message), 0) + message)


def over_tcp(stream, sequence=1):
    header = struct.pack(">HHIIBBHHH", CLIENT_PORT, COAP_PORT, sequence, 1, 0x50, 0x18, 65535, 0, 0)
    return ipv4(TCP, header + stream)


def write(path, packets):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, LINKTYPE_RAW))
        for second, packet in enumerate(packets):
            file.write(struct.pack("<IIII", second, 0, len(packet), len(packet)) + packet)
