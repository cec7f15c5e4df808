# SPDX-License-Identifier: BSD-2-Clause
"""What a reload and a stop do to listeners and to what is in flight."""

import os
import shutil
import socket
import subprocess

import pytest

from coap_wire import GET, NON, Client, Message, Origin, code
from ports import free_port
from processes import PATIENCE_S, Proxy, wait_until
from stream_wire import RELEASE, Closed, Stream
from target import Target


def write_listeners(file, *uris, more=""):
    file.write_text("[listen]\n" + "".join("uri = %s\n" % uri for uri in uris) + more)


@pytest.fixture
def listening(start_proxy, tmp_path):
    """A proxy on one UDP port of a file, the file, and the port."""
    file = tmp_path / "proxy.conf"
    port = free_port()
    write_listeners(file, "coap://127.0.0.1:%d" % port)
    return start_proxy("-c", str(file), "--set", "proxy.workers=2", listen=()), file, port


def test_a_reload_adds_and_removes_listeners(listening):
    """Issue 8, reload: a new listener serves, one that is gone does not, one that stays goes on."""
    running, file, port = listening
    other = free_port()
    with Origin() as origin, Client(("127.0.0.1", port)) as client:
        options = Target("127.0.0.1", origin.port, ("x",)).options("cri")
        assert client.ask(options).code_text == "2.05"
        write_listeners(file, "coap://127.0.0.1:%d" % port, "coap://127.0.0.1:%d" % other)
        running.reload()
        with Client(("127.0.0.1", other)) as second:
            assert second.ask(options).code_text == "2.05"
        assert client.ask(options).code_text == "2.05"
        write_listeners(file, "coap://127.0.0.1:%d" % other)
        running.reload()
        running.wait_for_line(r"^listener_removed .*127\.0\.0\.1:%d$" % port)
        with Client(("127.0.0.1", other)) as second:
            assert second.ask(options).code_text == "2.05"
        wait_until_free(port)


def wait_until_free(port):
    """Binding succeeds as soon as each worker has closed its socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        def is_free():
            try:
                probe.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False

        wait_until(is_free, "port %d is still bound" % port)


def is_refused(client):
    """Whether a request that is new gets 5.03; false, too, where no answer comes within a second."""
    request = client.make([(11, b"nothing-here")])
    client.send(request.encode())
    try:
        while True:
            answer = client.receive(1)
            client.acknowledge(answer)
            if answer.token == request.token:  # else it is of an earlier one
                return answer.code_text == "5.03"
    except TimeoutError:
        return False


def test_what_is_in_flight_on_a_removed_listener_is_answered(listening):
    """Issue 8, reload: the answer goes out though its listener is gone; newcomers get 5.03."""
    running, file, port = listening
    other = free_port()
    with Origin(handler=lambda request: None) as origin, Client(("127.0.0.1", port)) as client:
        slow = client.make(Target("127.0.0.1", origin.port, ("slow",)).options("cri"))
        client.send(slow.encode())
        origin.wait_for(1)
        write_listeners(file, "coap://127.0.0.1:%d" % other)
        running.reload()
        with Client(("127.0.0.1", port)) as newcomer:
            # Each worker hears of it by itself: this one asks about the proxy itself until then.
            # What waits in the socket of a worker that closes it is lost, and sent again.
            wait_until(lambda: is_refused(newcomer))
        request, where = origin.requests[0], origin.peers[0]
        origin.reply(request, Message(code=code(2, 5), payload=b"late"), where)
        assert client.response_to(slow).payload == b"late"
        wait_until_free(port)


def test_connections_of_a_removed_listener_are_released(start_proxy, tmp_path):
    """Issue 8, reload: Release, the answer to what was asked, and the end; no connection is accepted."""
    file = tmp_path / "proxy.conf"
    port, stays = free_port(), free_port()
    write_listeners(file, "coap+tcp://127.0.0.1:%d" % port, "coap://127.0.0.1:%d" % stays)
    running = start_proxy("-c", str(file), listen=())
    with Origin(handler=lambda request: None) as origin, Stream(("127.0.0.1", port)) as client:
        client.open()
        client.send_message(GET, b"t", Target("127.0.0.1", origin.port, ("x",)).options("cri"))
        origin.wait_for(1)
        write_listeners(file, "coap://127.0.0.1:%d" % stays)
        running.reload()
        client.expect(RELEASE)
        origin.reply(origin.requests[0], Message(code=code(2, 5), payload=b"late"),
                     origin.peers[0])
        assert client.receive().payload == b"late"
        with pytest.raises(Closed):
            client.receive()
        wait_until_refused(port)


def wait_until_refused(port):
    """Each worker hears by itself that it accepts no more; a client that waits to be accepted is reset."""
    def is_refused():
        try:
            Stream(("127.0.0.1", port)).sock.close()
        except ConnectionResetError:
            pass
        except ConnectionRefusedError:
            return True
        return False

    wait_until(is_refused, "port %d still accepts" % port)


def test_an_address_that_cannot_be_had_refuses_the_reload(listening):
    """Issue 8, reload: refused whole; not even the keys beside it are taken over."""
    running, file, port = listening
    opened = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        write_listeners(file, "coap://127.0.0.1:%d" % port, "coap://127.0.0.1:%d" % opened,
                        "coap://127.0.0.1:%d" % taken.getsockname()[1],
                        more="[proxy]\nstrict = yes\n")
        running.reload(line=r"^reload_failed ")
        running.wait_for_line(r"^listen_failed .*:%d error=" % taken.getsockname()[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind(("127.0.0.1", opened))  # what had been opened by then is closed
    with Origin() as origin, Client(("127.0.0.1", port)) as client:
        both = Target("127.0.0.1", origin.port, ("x",)).options("cri") + [(3, b"other")]
        assert client.ask(both).code_text == "2.05"


def test_a_listener_comes_and_goes_many_times(listening):
    """Issue 8, reload: slots and descriptors come back."""
    running, file, port = listening
    stays = "coap://127.0.0.1:%d" % port
    for _ in range(8):  # the log leaves out lines past 20 a second
        write_listeners(file, stays, "coap://127.0.0.1:0", "coap+tcp://127.0.0.1:0")
        running.reload()
        write_listeners(file, stays)
        running.reload()
        with Client(("127.0.0.1", port)) as client:
            client.ping()
    assert running.text.count("listener_removed") == 16
    # Retired sockets close within a few turns: awaited by asking, not by time.
    with Client(("127.0.0.1", port)) as client:
        wait_until(lambda: client.ping() == [] and count_descriptors(running) < 30,
                   lambda: "%d descriptors" % count_descriptors(running))


def count_descriptors(running):
    return len(os.listdir("/proc/%d/fd" % running.process.pid))


def test_connections_and_observations_outlive_reloads(start_proxy, tmp_path):
    """Issue 8, reload: a connection serves on, and an observation goes on, over ten reloads."""
    file = tmp_path / "proxy.conf"
    file.write_text("[proxy]\nstrict = no\n")
    running = start_proxy("-c", str(file), "--listen", "coap+tcp://127.0.0.1:0",
                          "--set", "proxy.workers=2", listen=("127.0.0.1",))
    tcp = ("127.0.0.1", running.port("coap+tcp"))

    def handler(request):
        options = [(6, b"\x02")] if request.values(6) else []
        return Message(code=code(2, 5), options=options, payload=b"first")

    with Origin(handler=handler) as origin, running.client() as client, Stream(tcp) as stream:
        stream.open()
        target = Target("127.0.0.1", origin.port, ("o",)).options("cri")
        registration = client.ask(target + [(6, b"")])
        assert registration.values(6) and registration.payload == b"first"
        [observing] = [i for i, request in enumerate(origin.requests) if request.values(6)]
        for turn in range(10):
            file.write_text("[proxy]\nstrict = %s\n[log]\nlevel = info\n" % ("yes", "no")[turn % 2])
            running.reload()
            plain = Target("127.0.0.1", origin.port, ("t%d" % turn,)).options("cri")
            assert stream.ask(GET, b"t%d" % turn, plain).payload == b"first"
            token = origin.requests[observing].token
            origin.send_to(observing, Message(
                type=NON, code=code(2, 5), mid=1000 + turn, token=token,
                options=[(6, bytes([10 + turn]))], payload=b"state %d" % turn).encode())
            while True:
                notification = client.receive()
                client.acknowledge(notification)
                if notification.payload == b"state %d" % turn:
                    break
            assert notification.values(6)


def dtls_client(port, key):
    """openssl s_client as PSK client "me", once its handshake is over, and what it has said."""
    client = subprocess.Popen(
        ["openssl", "s_client", "-dtls1_2", "-connect", "127.0.0.1:%d" % port, "-psk_identity",
         "me", "-psk", key, "-cipher", "PSK-AES128-GCM-SHA256:PSK-AES128-CCM8"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seen = b""
    while b"Verify return code" not in seen:
        line = client.stdout.readline()
        if not line:
            break
        seen += line
    return client, seen


def end_client(client):
    client.kill()
    client.wait()
    client.stdin.close()
    client.stdout.close()


def handshake(port, key):
    """What is said of one; each worker hears of new keys by itself."""
    client, seen = dtls_client(port, key)
    end_client(client)
    return seen


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_a_reload_brings_the_first_secure_listener(listening, tmp_path):
    """Issue 8, reload: keys and a coaps listener that were not there before; then other keys."""
    running, file, port = listening
    secure = free_port()
    psk = tmp_path / "keys"
    for key in ("0badcafe", "ffffffff"):
        psk.write_text("me:%s\n" % key)
        write_listeners(file, "coap://127.0.0.1:%d" % port, "coaps://127.0.0.1:%d" % secure,
                        more="[tls]\npsk-file = %s\n" % psk)
        running.reload()
        assert running.port("coaps") == secure
        wait_until(lambda: b"Cipher is PSK-" in handshake(secure, key))
    write_listeners(file, "coap://127.0.0.1:%d" % port)
    running.reload()
    wait_until_free(secure)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_sessions_hear_close_notify_at_the_stop(tmp_path):
    """Issue 8, stop: a DTLS client is told (RFC 6347 section 4.2.8): s_client ends by itself."""
    psk = tmp_path / "keys"
    psk.write_text("me:0badcafe\n")
    running = Proxy("--listen", "coaps://127.0.0.1:0", "--set", "tls.psk-file=%s" % psk,
                    listen=("127.0.0.1",))
    client, seen = dtls_client(running.port("coaps"), "0badcafe")
    try:
        assert b"Cipher is PSK-" in seen
        running.stop_cleanly()
        assert b"closed" in client.stdout.read()
        client.wait(PATIENCE_S)
    finally:
        end_client(client)
