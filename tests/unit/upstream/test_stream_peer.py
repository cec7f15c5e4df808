# SPDX-License-Identifier: BSD-2-Clause
"""net/upstream with an origin server on TCP that does what it is told, byte by byte.

TCP-3, TCP-4, TCP-6, TCP-7, TCP-11, TCP-12, TCP-13, TCP-14, TCP-16, TCP-20, TCP-21, TCP-29.
"""

import select
import socket

import pytest

from asking import ListeningPeer, abort_of

CSM = "00e1"
OUR_CSM = "50e12301000020"  # Max-Message-Size 65536, Block-Wise-Transfer


class Peer(ListeningPeer):
    """An origin server that speaks hexadecimal."""

    def accept(self, csm=CSM):
        self.connect()
        assert self.read(len(OUR_CSM) // 2) == OUR_CSM
        self.send(csm)

    def send(self, text):
        self.connection.sendall(bytes.fromhex(text))

    def read(self, count):
        return super().read(count).hex()

    def aborts(self, *words_and_option):
        """Whether an Abort comes, with these words, and then nothing more."""
        frame = abort_of(*words_and_option)
        assert self.read(len(frame) // 2) == frame
        return self.is_closed()

    def request(self):
        """Code and token of a request without a payload."""
        head = bytes.fromhex(self.read(2))
        token = self.read(head[0] & 15)
        self.read(head[0] >> 4)
        return head[1], token


def begin(asker, peer, method=1):
    asker.tell("ask tcp 127.0.0.1:%d - %d x" % (peer.port, method))
    peer.accept()
    return peer.request()[1]


@pytest.mark.parametrize("payload", [1, 50, 300, 2000])
def test_a_response_in_any_pieces(asker, payload):
    """TCP-29: a header in two pieces, after each of its bytes; libcoap 4.3.1 gets lost there."""
    body = "ff" + "79" * payload
    length = len(body) // 2
    head = ("%x8" % length if length < 13 else "d8%02x" % (length - 13) if length < 269 else
            "e8%04x" % (length - 269)) + "45"
    with Peer() as peer:
        token = begin(asker, peer)
        for cut in range(1, len(head) // 2 + 9):
            whole = head + token + body
            peer.send(whole[:2 * cut])
            select.select([], [], [], 0.02)  # so that it is read by itself
            peer.send(whole[2 * cut:])
            assert asker.hear().startswith("response 2.05 %d y" % payload)
            asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
            token = peer.request()[1]


def test_ping_is_answered(asker):
    """RFC 8323 section 5.4: Pong with the same token, with Custody where that was asked."""
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("01e242" + "11e24320")
        assert peer.read(6) == "01e342" + "11e343"
        assert peer.read(1) == "20"
        peer.send("0845" + token)
        assert asker.hear().startswith("response 2.05")


def test_a_ping_before_what_cannot_be_repeated(start_asker):
    """TCP-21: after a silence, and the request only once that is answered."""
    asker = start_asker("--silence", "1")
    with Peer() as peer:
        token = begin(asker, peer, 2)
        peer.send("0844" + token)
        assert asker.hear().startswith("response 2.04")
        select.select([], [], [], 0.02)
        asker.tell("ask tcp 127.0.0.1:%d - 2 x" % peer.port)
        assert peer.read(2) == "00e2"
        assert not select.select([peer.connection], [], [], 0.1)[0]
        peer.send("00e3")
        method, token = peer.request()
        assert method == 2
        peer.send("0844" + token)
        assert asker.hear().startswith("response 2.04")
        select.select([], [], [], 0.02)
        asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
        method, token = peer.request()  # a GET can be repeated
        assert method == 1
        peer.send("0845" + token)
        assert asker.hear().startswith("response 2.05")
        assert asker.counters()["opened"] == 1


def test_a_ping_without_an_answer(start_asker):
    """TCP-21: the request, which has not left, goes out on a connection of its own."""
    asker = start_asker("--silence", "1")
    with Peer() as peer:
        token = begin(asker, peer, 2)
        peer.send("0844" + token)
        assert asker.hear().startswith("response 2.04")
        select.select([], [], [], 0.02)
        asker.tell("ask tcp 127.0.0.1:%d - 2 x" % peer.port)
        assert peer.read(2) == "00e2"
        first, peer.connection = peer.connection, None
        peer.accept()
        method, token = peer.request()
        assert method == 2
        peer.send("0844" + token)
        assert asker.hear().startswith("response 2.04")
        first.close()


@pytest.mark.parametrize("signal", ["e2", "e3", "e4", "ff"])
def test_a_critical_option_in_a_signal(asker, signal):
    """TCP-14, RFC 8323 section 5.2: Abort, whatever the signal; elective ones are passed over."""
    with Peer() as peer:
        token = begin(asker, peer, 2)
        peer.send("11e24280")  # elective 8
        assert peer.read(3) == "01e342"
        peer.send("10" + signal + "10")  # critical 1
        assert peer.aborts("unknown critical option in a signal")
        assert asker.hear() == "failure closed sent unknown critical option in a signal"
        assert token


@pytest.mark.parametrize("said", ["08e2" + 8 * "70", "0801" + 8 * "70"])
def test_a_peer_that_has_us_talk_and_does_not_read(asker, said):
    """TCP-28: Pings, or requests, without end: what we say to them has an end."""
    with Peer() as peer:
        peer.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        begin(asker, peer, 2)  # POST is not sent again
        flood = bytes.fromhex(said) * 10000
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(1000):  # 100 MB: more than any buffer of a kernel
                peer.connection.sendall(flood)
        assert asker.hear().startswith("failure closed")


def test_requests_of_an_origin_server(asker):
    """TCP-20"""
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("010177")
        assert peer.read(3) == "01a177"
        peer.send("0000" + "0845" + token)  # and an empty message, TCP-16
        assert asker.hear().startswith("response 2.05")


def test_no_csm(asker):
    """TCP-6, TCP-7, TCP-14, TCP-3: Abort, then the connection is closed."""
    for said, why in (("0045", ("CSM expected first",)),
                      ("10e110", ("unknown critical option in CSM", "2101")),
                      ("10e1ff", ("malformed message",)),
                      ("f0ffffffff45", ("message larger than Max-Message-Size",))):
        with Peer() as peer:
            asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
            peer.accept(said)
            assert peer.aborts(*why)
            assert asker.hear().startswith("failure handshake-failed unsent")


def test_a_message_larger_than_announced(asker):
    """TCP-3: the limit is ours, and found out from the first bytes."""
    with Peer() as peer:
        begin(asker, peer, 2)
        peer.send("f0ffffffff45")
        assert peer.aborts("message larger than Max-Message-Size")
        assert asker.hear() == "failure closed sent message larger than Max-Message-Size"


def test_a_message_larger_than_the_peer_takes(asker):
    """TCP-4: the base value without a word of it; a later CSM counts, to the byte."""
    def takes(count):
        peer.send("30e122%04x 00e2" % count)
        assert peer.read(2) == "00e3"  # the Pong: it has been read

    with Peer() as peer:
        big = "big 2000 tcp 127.0.0.1:%d - 2 x" % peer.port
        asker.tell(big)
        peer.accept()
        assert asker.hear() == "failure too-large unsent -"
        takes(4095)
        asker.tell(big)
        head = peer.read(3)
        assert head.startswith("e8")
        rest = 1 + 8 + 269 + int(head[2:], 16)  # the code, the token, what the length counts
        peer.read(rest)
        takes(3 + rest)
        asker.tell(big)
        peer.read(3 + rest)
        takes(3 + rest - 1)
        asker.tell(big)
        assert asker.hear() == "failure too-large unsent -"


def test_abort_of_the_peer(asker):
    """TCP-13, TCP-21: what is safe to repeat is, once; the rest has failed."""
    with Peer() as peer:
        begin(asker, peer, 2)
        peer.send("00e5")
        assert asker.hear() == "failure closed sent aborted by the other side"
        begin(asker, peer, 1)
        peer.send("00e5")
        peer.accept()
        peer.request()
        peer.send("00e5")
        assert asker.hear() == "failure closed sent aborted by the other side"


def test_release_of_the_peer(asker):
    """TCP-11: the answer may still come there; the next request goes elsewhere."""
    with Peer() as peer:
        token = begin(asker, peer, 2)
        peer.send("00e4")
        asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
        first = peer.connection
        peer.connection = None
        peer.accept()
        later = peer.request()[1]
        first.sendall(bytes.fromhex("0844" + token))
        assert asker.hear().startswith("response 2.04")
        peer.send("0845" + later)
        assert asker.hear().startswith("response 2.05")
        first.close()


def test_release_after_each_request(asker):
    """TCP-11: an origin server that sends Release each time and answers nothing: four connections
    of the kind are kept, the oldest ends; what may be sent again is, on another."""
    connections = []
    with Peer() as peer:
        for _ in range(12):
            asker.tell("ask tcp 127.0.0.1:%d - 2 x" % peer.port)
            peer.connection = None
            peer.accept()
            peer.request()
            peer.send("00e4")
            connections.append(peer.connection)
        for connection in connections[:8]:
            peer.connection = connection
            assert asker.hear() == "failure closed sent too many sessions wait for answers"
            assert peer.read(2) == "00e4"
            assert peer.is_closed()
        assert asker.counters()["sessions"] == 4
        for connection in connections:
            connection.close()


def test_release_before_any_request(asker):
    """TCP-11: an origin server that sends Release at once, each time, is left alone like one that
    closes: else one request would open one connection after the other."""
    with Peer() as peer:
        asker.tell("ask tcp 127.0.0.1:%d - 1 x" % peer.port)
        released = []
        for _ in range(2):
            peer.accept(CSM + "00e4")
            released.append(peer.connection)
            peer.connection = None
        assert asker.hear().startswith("failure backing-off")
        for connection in released:
            connection.close()


def test_sessions_that_were_released_make_room(start_asker):
    """TCP-11: they are counted, and the first to go where a session is needed."""
    asker = start_asker("--sessions", "2")
    with Peer() as peer, Peer() as other:
        asker.tell("ask tcp 127.0.0.1:%d - 2 x" % peer.port)
        peer.accept()
        peer.request()
        peer.send("00e4")
        first, peer.connection = peer.connection, None
        asker.tell("ask tcp 127.0.0.1:%d - 2 x" % peer.port)
        peer.accept()
        peer.request()
        asker.tell("ask tcp 127.0.0.1:%d - 1 x" % other.port)
        other.accept()
        token = other.request()[1]
        assert asker.hear() == "failure closed sent too many sessions wait for answers"
        assert asker.counters()["sessions"] == 2
        other.send("0845" + token)
        assert asker.hear().startswith("response 2.05")
        first.close()


def test_our_release(start_asker):
    """TCP-12: when it has been idle for long enough."""
    asker = start_asker("--idle", "100")
    with Peer() as peer:
        token = begin(asker, peer)
        peer.send("0845" + token)
        assert asker.hear().startswith("response 2.05")
        assert peer.read(2) == "00e4"
        assert peer.is_closed()


def test_a_reader_that_stops(asker):
    """Requests that the peer does not take wait, and are not lost when it does."""
    with Peer() as peer:
        count = 40
        for _ in range(count):
            asker.tell("big 60000 tcp 127.0.0.1:%d - 3 x" % peer.port)
        peer.accept("40e1230fffff")
        for _ in range(count):
            head = bytes.fromhex(peer.read(4))
            assert head[0] == 0xe8
            token = peer.read(8)
            peer.read(269 + (head[1] << 8 | head[2]))
            peer.send("0844" + token)
        for _ in range(count):
            assert asker.hear().startswith("response 2.04")
