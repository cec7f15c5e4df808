# SPDX-License-Identifier: BSD-2-Clause
"""Two proxies with one cache on a redis-server (cache.shared): what it saves, and that nothing
wrong or stale is answered while it stops, pauses, forgets, is full or is hostile."""

import contextlib
import os
import queue
import re
import shutil
import signal
import socket
import tempfile
import threading

import pytest

from admin_wire import http, http_place, parse_metrics, value_of
from coap_wire import GET, PATIENCE_S, PUT, Message, Origin, code, uint
from ports import closed_port, free_port
from processes import Proxy, run_criproxyd, wait_until
from redis_server import PROGRAM, PROGRAMS, Redis, read_reply, version_of
from stream_wire import Stream, client_context
from target import Target
from test_http_targets import Handler, Server
from test_upstream import make_certificate

ETAG, MAX_AGE, ACCEPT = 4, 14, 17

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="redis-server is not installed")


class Resource:
    """A state that a PUT changes; fresh for an hour."""

    def __init__(self):
        self.state = b"one"

    def __call__(self, request):
        if request.code == PUT:
            self.state = request.payload
            return Message(code=code(2, 4))
        return Message(code=code(2, 5), options=[(MAX_AGE, uint(3600))], payload=self.state)


@pytest.fixture(params=PROGRAMS or [None], ids=lambda path: os.path.basename(path or "none"))
def redis(request):
    with Redis(program=request.param) as server:
        yield server


@pytest.fixture
def origin():
    with Origin(handler=Resource()) as server:
        yield server


@pytest.fixture
def start():
    """Starts replicas with a long time for the server: this machine may be busy."""
    running = []

    def start(uri, *more, is_up=True, timeout="10s"):
        proxy = Proxy("--set", "cache.shared=" + uri, "--set", "cache.shared-timeout=" + timeout,
                      "--set", "proxy.workers=1", "--set", "admin.listen=http://127.0.0.1:0",
                      *more, listen=("127.0.0.1",))
        running.append(proxy)
        if is_up:
            wait_for(proxy, "cache_shared_up", 1)
        return proxy

    yield start
    for proxy in running:
        proxy.stop_cleanly()


def metric(proxy, name):
    metrics = parse_metrics(http(http_place(proxy), "/metrics")[2])
    full = "criproxyd_" + name
    return value_of(metrics, full if full in metrics else full + "_total")


def wait_for(proxy, name, value):
    wait_until(lambda: metric(proxy, name) >= value,
               lambda: "%s is %s, not %s\n%s" % (name, metric(proxy, name), value, proxy.text))


def wait_for_down(proxy):
    wait_until(lambda: metric(proxy, "cache_shared_up") == 0, lambda: proxy.text)


def get(proxy, target):
    with proxy.client() as client:
        answer = client.ask(target.options("cri"))
    assert answer.code_text == "2.05", answer
    return answer


def put(proxy, target, payload):
    with proxy.client() as client:
        assert client.ask(target.options("cri"), method=PUT, payload=payload).code_text == "2.04"


def at(origin, path="a"):
    return Target("127.0.0.1", origin.port, (path,))


def test_what_one_has_fetched_the_other_has(redis, start, origin):
    """Issue 20, item 1: one request to the origin server, and the age is told."""
    first, second = start(redis.uri), start(redis.uri)
    assert get(first, at(origin)).payload == b"one"
    wait_until(lambda: redis.keys("v2"))
    answer = get(second, at(origin))
    assert answer.payload == b"one"
    assert int.from_bytes(answer.values(MAX_AGE)[0], "big") <= 3600
    assert len(origin.requests) == 1
    wait_for(second, "cache_shared_hits", 1)
    get(second, at(origin))  # from its own cache now
    wait_for(second, "cache_hits", 1)
    assert metric(second, "cache_shared_hits") == 1
    (name,) = redis.keys("v2")
    assert 0 < redis.ask("PTTL", name) <= 3600 * 1000


def questions(redis):
    """How many MGET and how many SET the server has had."""
    text = redis.ask("INFO", "commandstats").decode()
    return [int((re.findall(r"cmdstat_%s:calls=(\d+)" % name, text) or [0])[0])
            for name in ("mget", "set")]


def test_a_first_miss_asks_once(redis, start, origin):
    """Issue 20, item 1: a generation is made with the first question for a target, and only then."""
    first = start(redis.uri)
    steps = []
    for count in (1, 2, 3):  # one target, three entries
        before = questions(redis)
        with first.client() as client:
            client.ask([*at(origin).options("cri"), (ACCEPT, uint(count))])
        wait_until(lambda count=count: len(redis.keys("v2")) == count)
        steps.append([after - once for after, once in zip(questions(redis), before)])
    assert steps == [[1, 2], [1, 1], [1, 1]]


def test_a_worker_has_what_another_has_fetched(redis, start, origin):
    """Issue 20, item 1: the workers of one process share by it, too, and a change holds for all."""
    proxy = start(redis.uri, "--set", "proxy.workers=4", is_up=False)
    wait_for(proxy, "cache_shared_up", 4)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.client()) for _ in range(16)]
        for state in (b"one", b"two", b"three"):
            if state != b"one":
                put(proxy, at(origin), state)
            for client in clients:
                assert client.ask(at(origin).options("cri")).payload == state


class Counter:
    """What was PUT last; fresh for an hour."""

    def __init__(self):
        self.number = b"0"

    def __call__(self, request):
        if request.code == PUT:
            self.number = request.payload
            return Message(code=code(2, 4))
        return Message(code=code(2, 5), options=[(MAX_AGE, uint(3600))], payload=self.number)


def restart(redis, is_over):
    redis.stop()
    redis.start()
    is_over.wait(0.3)  # so that there are connections again, for the next time to end them


def pause(redis, is_over):
    redis.pause()
    is_over.wait(0.05)
    redis.go_on()
    is_over.wait(0.05)


def disconnect(redis, is_over):
    for kind in ("normal", "pubsub"):
        redis.ask("CLIENT", "KILL", "TYPE", kind)
    is_over.wait(0.3)


def leave_alone(_, is_over):
    is_over.wait()


def must_see_each_change(origin, proxies, changes):
    """A client of each of these proxies sees each change, made by one of them in turn, at once."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(proxy.client()) for proxy in proxies]
        for number in range(1, changes + 1):
            writer = clients[number % len(clients)]
            answer = writer.ask(at(origin).options("cri"), method=PUT, payload=b"%d" % number)
            assert answer.code_text == "2.04"
            for client in clients:
                assert client.ask(at(origin).options("cri")).payload == b"%d" % number


@pytest.mark.parametrize("disturb", [leave_alone, restart, pause, disconnect])
def test_a_replica_never_goes_back_behind_its_own_changes(disturb, redis, start):
    """Issue 20, item 1: after a PUT by way of one worker no worker of that replica gives an older
    state, while another replica reads all the time, and keeps what it gets on the server."""
    is_over = threading.Event()

    def read_all_the_time():
        with second.client() as client:
            while not is_over.is_set():
                client.ask(at(origin).options("cri"))

    def disturb_all_the_time():
        while not is_over.is_set():
            disturb(redis, is_over)

    with Origin(handler=Counter()) as origin:
        first, second = (start(redis.uri, "--set", "proxy.workers=2", is_up=False, timeout="20ms")
                         for _ in range(2))
        for proxy in (first, second):
            wait_for(proxy, "cache_shared_up", 2)
        threads = [threading.Thread(target=work, daemon=True)
                   for work in (read_all_the_time, disturb_all_the_time)]
        for thread in threads:
            thread.start()
        try:
            must_see_each_change(origin, [first] * 6, 1000)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        for proxy in (first, second):
            wait_for(proxy, "cache_shared_up", 2)
        wait_until(lambda: get(second, at(origin)).payload == b"1000")


def test_a_client_gets_its_own_change_from_any_replica(redis, start):
    """Issue 20, item 1: the answer to a PUT comes when no worker of any replica gives an older state
    any more, although all of them have it in their caches and fetch it all the time."""
    is_over = threading.Event()

    def read_all_the_time(proxy):
        with proxy.client() as client:
            while not is_over.is_set():
                client.ask(at(origin).options("cri"))

    with Origin(handler=Counter()) as origin:
        proxies = [start(redis.uri, "--set", "proxy.workers=2", is_up=False) for _ in range(2)]
        for proxy in proxies:
            wait_for(proxy, "cache_shared_up", 2)
        threads = [threading.Thread(target=read_all_the_time, args=(proxy,), daemon=True)
                   for proxy in proxies]
        for thread in threads:
            thread.start()
        try:
            must_see_each_change(origin, [proxy for proxy in proxies for _ in range(4)], 500)
        finally:
            is_over.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        for proxy in proxies:
            assert metric(proxy, "cache_unconfirmed") == 0
            assert metric(proxy, "cache_shared_changes") >= 250


def test_a_subscriber_that_says_nothing(redis, start, origin):
    """Issue 20, item 1: a change waits for its confirmation for cache.shared-timeout, and is counted."""
    proxy = start(redis.uri, timeout="50ms")
    with redis.connect() as silent:
        redis.ask("SUBSCRIBE", "criproxy:changes", connection=silent)
        put(proxy, at(origin), b"two")
        assert metric(proxy, "cache_unconfirmed") == 1
    assert get(proxy, at(origin)).payload == b"two"


def test_a_forged_confirmation(redis, start, origin, tmp_path):
    """Issue 20, item 1: with a secret nobody else confirms a change in the place of one that says nothing."""
    (tmp_path / "secret").write_text("4a" * 32)
    (tmp_path / "secret").chmod(0o600)
    secret = "cluster.secret-file=%s" % (tmp_path / "secret")
    first, _ = (start(redis.uri, "--set", secret) for _ in range(2))
    forged = []

    def forge(connection, lines):
        with contextlib.suppress(OSError, ValueError):
            while True:
                _, _, channel, sign = read_reply(lines)
                if len(sign) >= 17 and sign[-17] == 2:  # the other replica's
                    forged.append(redis.ask("PUBLISH", channel, b"\1" + sign[-17:]))

    with redis.connect() as silent, redis.connect() as heard, heard.makefile("rb") as lines:
        redis.ask("SUBSCRIBE", "criproxy:changes", connection=silent)
        heard.settimeout(None)
        redis.ask("PSUBSCRIBE", "criproxy:beat:*", connection=heard)
        threading.Thread(target=forge, args=(heard, lines), daemon=True).start()
        put(first, at(origin), b"two")
        assert metric(first, "cache_unconfirmed") == 1
        assert forged
        wait_for(first, "cache_shared_unsigned", len(forged))
        heard.shutdown(socket.SHUT_RDWR)


def test_two_releases_with_one_prefix(redis, start, origin):
    """Issue 20, item 1: neither reads the other's answers, and each one's changes hold for both."""
    first, second = start(redis.uri), start(redis.uri)
    get(first, at(origin))
    (name,) = wait_until(lambda: redis.keys("v2"))
    redis.ask("RENAME", name, name.replace(b":v2:", b":v1:"))
    get(second, at(origin))
    assert len(origin.requests) == 2
    (name,) = wait_until(lambda: redis.keys("v2"))
    wait_for(second, "cache_shared_kept", 1)
    before = redis.ask("GET", name)
    redis.ask("DEL", *redis.keys("g"))
    redis.ask("PUBLISH", "criproxy:changes", b"\1\x09" + bytes(40))  # of a version to come
    for proxy in (first, second):
        wait_for(proxy, "cache_shared_refused", 1)
        get(proxy, at(origin))
        assert len(origin.requests) == 3
        wait_until(lambda: redis.ask("GET", name) != before)


def test_a_change_by_one_reaches_the_other(redis, start, origin):
    """Issue 20, item 1: a PUT at one replica makes what the other keeps stale."""
    first, second = start(redis.uri), start(redis.uri)
    for proxy in (first, second):
        assert get(proxy, at(origin)).payload == b"one"
    put(second, at(origin), b"two")
    wait_for(first, "cache_shared_changes", 1)
    for proxy in (first, second):
        assert get(proxy, at(origin)).payload == b"two"


class SlowGets(Resource):
    """The answer to a GET waits until the test says so; it has the state of when it was asked."""

    def __init__(self):
        super().__init__()
        self.is_slow, self.waiting = True, queue.Queue()

    def __call__(self, request):
        answer = super().__call__(request)
        if request.code == PUT or not self.is_slow:
            return answer
        self.waiting.put((request, answer))
        return None

    def release(self, origin):
        request, answer = self.waiting.get(timeout=PATIENCE_S)
        index = next(i for i, one in enumerate(origin.requests) if one is request)
        origin.reply(request, answer, origin.peers[index])


def test_a_change_during_a_slow_fetch(redis, start):
    """Issue 20, item 1: an answer from before a PUT at another replica is kept nowhere."""
    resource = SlowGets()
    with Origin(handler=resource) as origin:
        first, second = start(redis.uri), start(redis.uri)
        with first.client() as client:
            asked = client.make(at(origin).options("cri"))
            client.send(asked.encode())
            origin.wait_for(1)
            put(second, at(origin), b"two")
            wait_for(first, "cache_shared_changes", 1)
            resource.release(origin)
            assert client.response_to(asked).payload == b"one"
        resource.is_slow = False
        for proxy in (first, second):
            assert get(proxy, at(origin)).payload == b"two"


def test_each_replica_asks_once(redis, start):
    """Issue 20, item 1: equal requests at two replicas, at the same time, are at most one for each."""
    resource = SlowGets()
    with Origin(handler=resource) as origin, contextlib.ExitStack() as stack:
        proxies = [start(redis.uri) for _ in range(2)]
        clients = [stack.enter_context(proxy.client()) for proxy in proxies for _ in range(6)]
        asked = [(client, client.make(at(origin).options("cri"))) for client in clients]
        for client, request in asked:
            client.send(request.encode())
        origin.wait_for(len(proxies))
        for proxy in proxies:
            wait_for(proxy, "requests_coalesced", 5)
        for _ in proxies:
            resource.release(origin)
        for client, request in asked:
            assert client.response_to(request).payload == b"one"
        assert len(origin.requests) == len(proxies)


def test_a_server_that_stops_and_comes_back_empty(redis, start, origin):
    """Issue 20, item 1: without it all goes on; what was kept before it came back is dropped."""
    first, second = start(redis.uri), start(redis.uri)
    for proxy in (first, second):
        assert get(proxy, at(origin)).payload == b"one"
    redis.stop()
    for proxy in (first, second):
        wait_for_down(proxy)
        proxy.wait_for_line(r"^shared_cache_down\b.*connection=channel")
        assert get(proxy, at(origin)).payload == b"one"  # by its own cache: Max-Age holds
        wait_for(proxy, "cache_unheard_hits", 1)
    put(first, at(origin), b"two")  # which the second cannot hear of
    assert get(first, at(origin)).payload == b"two"
    assert get(second, at(origin, "b")).payload == b"two"  # not kept before: the origin server's
    redis.start()
    for proxy in (first, second):
        wait_for(proxy, "cache_shared_up", 1)
        proxy.wait_for_line(r"^shared_cache_up\b.*connection=commands")
        assert get(proxy, at(origin)).payload == b"two"


def test_a_server_that_pauses(redis, start, origin):
    """Issue 20, item 1: requests wait for cache.shared-timeout; a change meanwhile is owed."""
    first = start(redis.uri, timeout="10ms")
    second = start(redis.uri, timeout="10ms")
    for proxy in (first, second):
        assert get(proxy, at(origin)).payload == b"one"
    redis.pause()
    for number in range(20):
        assert get(first, at(origin, "p%d" % number)).payload == b"one"
    wait_for(first, "cache_shared_late", 1)
    wait_for(first, "cache_shared_skipped", 1)  # the breaker, or the connection is given up
    put(first, at(origin), b"two")
    assert get(first, at(origin)).payload == b"two"
    for proxy in (first, second):
        wait_for_down(proxy)
    redis.go_on()
    for proxy in (first, second):
        wait_for(proxy, "cache_shared_up", 1)
        assert get(proxy, at(origin)).payload == b"two"


def test_a_change_that_could_not_be_told_is_made_good(redis, start, origin):
    """Issue 20, item 1: what the server kept before a change that it missed counts no more."""
    first, second = start(redis.uri), start(redis.uri)
    assert get(first, at(origin)).payload == b"one"
    (name,) = wait_until(lambda: redis.keys("v2"))
    with redis.connect() as alone:
        for words in ("CONFIG SET maxclients 1", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"):
            redis.ask(*words.split(), connection=alone)
        wait_for_down(first)
        put(first, at(origin), b"two")
        redis.ask("CONFIG", "SET", "maxclients", 1000, connection=alone)
    for proxy in (first, second):
        wait_for(proxy, "cache_shared_up", 1)
    assert redis.ask("EXISTS", name) == 1  # still there, and of no use
    for proxy in (second, first):
        assert get(proxy, at(origin)).payload == b"two"


def test_a_replica_that_ends_tells_what_it_owes(redis, start, origin):
    """Issue 20, item 1: a stop waits for the server to take a change, as for requests in flight."""
    first, second = (start(redis.uri, "--set", "proxy.drain-timeout=60s") for _ in range(2))
    assert get(first, at(origin)).payload == b"one"
    (name,) = wait_until(lambda: redis.keys("v2"))
    with redis.connect() as alone:
        for words in ("CONFIG SET maxclients 1", "CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"):
            redis.ask(*words.split(), connection=alone)
        wait_for_down(first)
        put(first, at(origin), b"two")
        first.process.send_signal(signal.SIGTERM)
        first.wait_for_line(r'^stop_waits .*why="cache.shared has not taken changes" worker=0 changes=1 '
                            r"at_most_ms=60000$")
        redis.ask("CONFIG", "SET", "maxclients", 1000, connection=alone)
    assert first.process.wait(PATIENCE_S) == 0
    assert re.search(r"\bstop_goes_on worker=0 waited_ms=\d+$", first.text, re.MULTILINE)
    wait_for(second, "cache_shared_up", 1)
    assert redis.ask("EXISTS", name) == 1  # still there, and of no use
    assert get(second, at(origin)).payload == b"two"


def test_a_server_that_is_full(redis, start, origin):
    """Issue 20, item 1: it refuses to keep anything, and changes count all the same."""
    first, second = start(redis.uri), start(redis.uri)
    assert get(first, at(origin)).payload == b"one"
    wait_until(lambda: redis.keys("v2"))
    redis.ask("CONFIG", "SET", "maxmemory", 1)
    assert get(first, at(origin, "b")).payload == b"one"  # not kept there
    assert get(second, at(origin)).payload == b"one"      # still there
    wait_for(second, "cache_shared_hits", 1)
    put(second, at(origin), b"two")
    wait_for(first, "cache_shared_changes", 1)
    for proxy in (first, second):
        assert get(proxy, at(origin)).payload == b"two"
    assert len(redis.keys("v2")) == 1
    for proxy in (first, second):
        wait_for(proxy, "cache_shared_up", 1)


def test_a_server_that_evicts_anything(redis, start, origin):
    """Issue 20, item 1: a generation that is gone makes the answer useless, never valid again."""
    first, second = start(redis.uri), start(redis.uri)
    assert get(first, at(origin)).payload == b"one"
    wait_until(lambda: redis.keys("v2"))
    for name in [*redis.keys("g"), *redis.ask("KEYS", "*:e")]:
        redis.ask("DEL", name)
    put(first, at(origin), b"two")
    assert get(second, at(origin)).payload == b"two"
    assert metric(second, "cache_shared_hits") == 0


def test_entries_of_another_secret_are_refused(redis, start, origin, tmp_path):
    """Issue 20, item 1: names are keyed, and an entry that was tampered with does not count."""
    secrets = [tmp_path / name for name in ("secret", "other")]
    for secret, digits in zip(secrets, ("4a", "4b")):
        secret.write_text(digits * 32)
        secret.chmod(0o600)
    first, other, same = (start(redis.uri, "--set", "cluster.secret-file=%s" % secret)
                          for secret in (secrets[0], secrets[1], secrets[0]))
    assert get(first, at(origin)).payload == b"one"
    (name,) = wait_until(lambda: redis.keys("v2"))
    assert get(other, at(origin)).payload == b"one"
    assert len(origin.requests) == 2
    value = redis.ask("GET", name)
    redis.ask("SET", name, value[:-1] + b"x", "PX", 60000)
    assert get(same, at(origin)).payload == b"one"
    assert len(origin.requests) == 3
    wait_for(same, "cache_shared_refused", 1)
    redis.ask("PUBLISH", "criproxy:changes", b"\1" + bytes(16))  # without a MAC: nothing is dropped
    wait_for(same, "cache_shared_refused", 2)
    get(same, at(origin))
    assert len(origin.requests) == 3


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Certificates of the proxies, of the origin server, and of two clients with their authority."""
    folder = tmp_path_factory.mktemp("people")
    files = {name: make_certificate(folder, name, "IP:127.0.0.1,DNS:localhost,DNS:%s.example" % name)
             for name in ("proxy", "server", "alice", "bob")}
    with open(folder / "clients.pem", "w") as clients:
        for name in ("alice", "bob"):
            with open(files[name][0]) as certificate:
                clients.write(certificate.read())
    (folder / "secret").write_text("4a" * 32)
    (folder / "secret").chmod(0o600)
    return folder, files


class Fresh(Handler):
    """Its answers are fresh for an hour."""

    def answer(self, status, body, **fields):
        super().answer(status, body, **{"Cache-Control": "max-age=3600"}, **fields)


@pytest.fixture
def server(people):
    running = Server(people[1]["server"])
    running.RequestHandlerClass = Fresh
    yield running
    running.stop()


class Securely:
    """Replicas that answer clients with certificates about an https origin server."""

    def __init__(self, people, start, uri, server, *more):
        folder, self.files = people
        self.server = server
        self.proxies = [start(
            uri, "--listen", "coaps+tcp://127.0.0.1:0", "--set", "tls.certificate=" + self.files["proxy"][0],
            "--set", "tls.key=" + self.files["proxy"][1], "--set", "tls.client-ca=%s" % (
                folder / "clients.pem"), "--set", "upstream.ca=" + self.files["server"][0],
            "--set", "cluster.secret-file=%s" % (folder / "secret"), *more) for _ in range(2)]

    def get(self, proxy, name):
        context = client_context(self.files["proxy"][0])
        context.load_cert_chain(*self.files[name])
        place = ("127.0.0.1", self.proxies[proxy].port("coaps+tcp"))
        with Stream(place, context) as client:
            client.open()
            answer = client.ask(GET, b"a", self.server.target("x", scheme="https").options("cri"))
            assert answer.code_text == "2.05"
            return answer.payload


def test_private_answers_are_sealed(redis, start, people, server):
    """Issue 20, item 1: cache.shared-private. The same client gets its answer from another replica,
    another client does not, and the server sees neither the answer nor whose it is."""
    secure = Securely(people, start, redis.uri, server, "--set", "cache.shared-private=yes")
    payload = secure.get(0, "alice")
    (name,) = wait_until(lambda: redis.keys("v2"))
    value = redis.ask("GET", name)
    assert payload and payload not in value and b"alice" not in value + name
    assert secure.get(1, "alice") == payload
    wait_for(secure.proxies[1], "cache_shared_hits", 1)
    assert len(server.seen) == 1
    assert secure.get(1, "bob") == payload
    assert len(server.seen) == 2
    other = next(key for key in wait_until(lambda: len(redis.keys("v2")) == 2 and redis.keys("v2"))
                 if key != name)
    redis.ask("SET", other, value, "PX", 60000)  # what is alice's does not become bob's
    assert secure.get(0, "bob") == payload
    assert len(server.seen) == 3
    wait_for(secure.proxies[0], "cache_shared_refused", 1)


def test_without_that_secure_targets_stay_out(redis, start, people, server):
    """Issue 20, item 1: also where all clients may have the answer."""
    secure = Securely(people, start, redis.uri, server, "--set", "cache.secure-targets=shared")
    secure.get(0, "alice")
    secure.get(1, "alice")
    assert len(server.seen) == 2
    assert not redis.keys("v2")


def test_the_channel_names_no_targets(redis, start, origin, people):
    """Issue 20, item 1: with a secret, what is told of changes is sealed."""
    proxy = start(redis.uri, "--set", "cluster.secret-file=%s" % (people[0] / "secret"))
    with redis.connect() as listener:
        redis.ask("SUBSCRIBE", "criproxy:changes", connection=listener)
        put(proxy, at(origin, "hidden-path"), b"two")
        with listener.makefile("rb") as lines:
            kind, channel, told = read_reply(lines)
    assert (kind, channel) == (b"message", b"criproxy:changes")
    assert len(told) > 40 and b"hidden-path" not in told


def tls_server(files, *more):
    port = free_port()
    return port, Redis("--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1", "--tls-cert-file",
                       files["server"][0], "--tls-key-file", files["server"][1], *more)


@pytest.fixture(scope="module")
def has_tls(people):
    """Whether the server that is installed was built with TLS."""
    with contextlib.suppress(AssertionError):
        with tls_server(people[1], "--tls-auth-clients", "no", "--tls-ca-cert-file",
                        people[1]["server"][0])[1]:
            return True
    pytest.skip("redis-server has no TLS")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_tls_to_the_server(host, start, origin, people, has_tls):
    """Issue 20, item 1: rediss://, with the name or the address that its certificate has; a client's
    certificate, where the server wants one."""
    folder, files = people
    port, server = tls_server(files, "--tls-auth-clients", "yes", "--tls-ca-cert-file",
                              str(folder / "clients.pem"))
    with server as redis:
        common = ["--set", "cache.shared-ca=" + files["server"][0], "--set", "cache.shared-certificate="
                  + files["alice"][0], "--set", "cache.shared-key=" + files["alice"][1]]
        uri = "rediss://%s:%d" % (host, port)
        first, second = (start(uri, *common) for _ in range(2))
        get(first, at(origin))
        wait_until(lambda: redis.keys("v2"))
        get(second, at(origin))
        wait_for(second, "cache_shared_hits", 1)
        refused = start(uri, *common[:2], is_up=False)  # without a certificate of ours
        refused.wait_for_line(r"^shared_cache_down\b")
        unknown = start(uri, "--set", "cache.shared-ca=" + files["proxy"][0], *common[2:], is_up=False)
        unknown.wait_for_line(r"^shared_cache_down\b.*self.signed")
        for proxy in (refused, unknown):
            assert get(proxy, at(origin)).payload == b"one"
            assert metric(proxy, "cache_shared_up") == 0


def test_a_certificate_of_another_name(start, origin, people, has_tls):
    """Issue 20, item 1: the server has to be the one that was named."""
    files = people[1]
    port, server = tls_server(files, "--tls-auth-clients", "no", "--tls-ca-cert-file",
                              files["server"][0], "--bind", "127.0.0.1", "127.0.0.2")
    with server:
        proxy = start("rediss://127.0.0.2:%d" % port, "--set", "cache.shared-ca=" + files["server"][0],
                      is_up=False)
        proxy.wait_for_line(r"^shared_cache_down\b.*mismatch")
        assert get(proxy, at(origin)).payload == b"one"


def test_no_tls_at_the_other_end(redis, start, origin, people):
    """Issue 20, item 1: what speaks no TLS is not spoken to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = start("rediss://127.0.0.1:%d" % listener.getsockname()[1], is_up=False)
        with listener.accept()[0] as connection:
            connection.settimeout(PATIENCE_S)
            assert b"INFO" not in connection.recv(65536)
            connection.sendall(GREETING)
            proxy.wait_for_line(r"^shared_cache_down\b.*(version|packet|record)")
        assert get(proxy, at(origin)).payload == b"one"


def test_a_name_as_the_servers_address(start, origin):
    """Issue 20, item 1: resolved by the proxy's own resolver, again for each connection."""
    port = free_port()
    with Redis("--port", str(port), "--bind", "127.0.0.1") as redis:
        first, second = (start("redis://localhost:%d/0" % port) for _ in range(2))
        get(first, at(origin))
        wait_until(lambda: redis.keys("v2"))
        get(second, at(origin))
        wait_for(second, "cache_shared_hits", 1)
        redis.stop()
        wait_for_down(second)
        redis.start()
        wait_for(second, "cache_shared_up", 1)


def test_a_name_that_does_not_exist(start, origin):
    """Issue 20, item 1: said once, and requests go on."""
    proxy = start("redis://nowhere.invalid", "--set", "resolve.servers=127.0.0.1:%d" % closed_port(),
                  is_up=False)
    proxy.wait_for_line(r"^shared_cache_down\b.*name of the server|^shared_cache_down\b.*server's name")
    assert get(proxy, at(origin)).payload == b"one"


def test_a_password_and_a_user(start, origin, tmp_path):
    """Issue 20, item 1: ACL users over TCP, with no more rights than the manual names."""
    port = free_port()
    rights = ("~mine:* &mine:* +auth +select +info +set +mget +pttl +del +publish +subscribe").split()
    if version_of(PROGRAM) < (6, 2):
        rights.remove("&mine:*")  # any channel there
    with Redis("--port", str(port), "--bind", "127.0.0.1", "--user", "cri", "on", ">letmein",
               *rights) as redis:
        (tmp_path / "right").write_text("letmein\n")
        (tmp_path / "wrong").write_text("nonsense\n")
        uri = "redis://127.0.0.1:%d/3" % port
        common = ("--set", "cache.shared-user=cri", "--set", "cache.shared-prefix=mine")
        files = ["cache.shared-password-file=%s" % (tmp_path / name) for name in ("right", "wrong")]
        for file in tmp_path.iterdir():
            file.chmod(0o600)
        first, second = (start(uri, *common, "--set", files[0]) for _ in range(2))
        third = start(uri, *common, "--set", files[1], is_up=False)
        third.wait_for_line(r"^shared_cache_down\b.*WRONGPASS")
        get(first, at(origin))
        with redis.connect() as chosen:
            redis.ask("SELECT", 3, connection=chosen)
            wait_until(lambda: redis.ask("KEYS", "mine:*:v2:*", connection=chosen))
        get(second, at(origin))
        wait_for(second, "cache_shared_hits", 1)
        assert get(third, at(origin)).payload == b"one"


def test_long_answers_are_not_sent(redis, start):
    """Issue 20, item 1: cache.shared-entry-bytes."""
    def long_answer(_):
        return Message(code=code(2, 5), options=[(MAX_AGE, b"\xff")], payload=bytes(600))

    with Origin(handler=long_answer) as origin:
        proxy = start(redis.uri, "--set", "cache.shared-entry-bytes=500B")
        get(proxy, at(origin))
        wait_for(proxy, "cache_shared_unkept", 1)
        assert not redis.keys("v2")


class Hostile:
    """A server that says to whatever comes what the test wants, to each connection."""

    def __init__(self, speak):
        self.folder = tempfile.mkdtemp(prefix="hostile-")
        self.uri = "unix:" + os.path.join(self.folder, "socket")
        self.speak = speak
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.uri[5:])
        self.listener.listen()
        self.connections = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                self.connections.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError):
            self.speak(connection)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def say(data):
    def speak(connection):
        connection.recv(65536)
        connection.sendall(data)
        while connection.recv(65536):
            pass
    return speak


def say_without_end(connection):
    connection.recv(65536)
    connection.sendall(b"$900000000\r\n")
    while True:
        connection.sendall(bytes(65536))


INFO = b"\r\nrun_id:" + b"0123456789abcdef" * 2 + b"01234567\r\n"
GREETING = b"$%d\r\n%s\r\n" % (len(INFO), INFO)
LONG_GREETING = b"$%d\r\n%s\r\n" % (9000 + len(INFO), b"a" * 9000 + INFO)

HOSTILE = [
    pytest.param(say(b"HTTP/1.1 400 Bad Request\r\n\r\n"), r"Protocol error", id="garbage"),
    pytest.param(say(b"$100\r\nrun_"), r"no reply within three seconds", id="stall"),
    pytest.param(say_without_end, r"a reply is too long", id="endless"),
    pytest.param(say(b"*1000000\r\n"), r".", id="many"),
    pytest.param(say(b"*1\r\n" * 9), r".", id="deep"),
    pytest.param(say(b"*16\r\n" + b"$4\r\nabcd\r\n" * 16), r".", id="array"),
    pytest.param(say(b"*2\r\n*1\r\n:1\r\n:2\r\n"), r".", id="nested"),
    pytest.param(say(b"*3\r\n#t\r\n,1.5\r\n_\r\n"), r".", id="resp3"),
    pytest.param(say(b"$-1\r\n"), r"no run_id|subscribed", id="nil"),
    pytest.param(say(b":1\r\n"), r"no run_id|subscribed", id="number"),
    pytest.param(say(b"-NOAUTH \x1b[31mred\r\n"), r"NOAUTH", id="error"),
    pytest.param(say(GREETING + b"+OK\r\n" * 99), r"not asked for|not subscribed", id="unasked"),
    pytest.param(say(GREETING + b"+OK\r\n" + b"+" + b"a" * 9000 + b"\r\n"),
                 r"not asked for|not subscribed", id="line"),
    pytest.param(say(LONG_GREETING + b"+OK\r\n" * 99), r"not asked for|not subscribed", id="long"),
    pytest.param(say(b""), r"no reply within three seconds", id="silence"),
    pytest.param(lambda connection: connection.shutdown(socket.SHUT_RDWR), r".", id="close"),
]


@pytest.mark.parametrize("speak, error", HOSTILE)
def test_a_hostile_server(speak, error, start, origin):
    """Issue 20, item 1: whatever it says, requests are answered, and the proxy goes on."""
    hostile = Hostile(speak)
    try:
        proxy = start(hostile.uri, "--set", "proxy.drain-timeout=100ms", is_up=False, timeout="100ms")
        proxy.wait_for_line(r"^shared_cache_down\b.*error=.*(%s)" % error)
        assert "\x1b" not in proxy.text
        for number in range(5):
            assert get(proxy, at(origin, "h%d" % number)).payload == b"one"
        put(proxy, at(origin, "h0"), b"two")
        assert get(proxy, at(origin, "h0")).payload == b"two"
        proxy.assert_alive()
        assert metric(proxy, "cache_shared_up") == 0
    finally:
        hostile.close()


def between(client, path, change):
    """Passes on what is said to a real server, and what it says as @change makes of it."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)

        def ask():
            with contextlib.suppress(OSError):
                while data := client.recv(65536):
                    server.sendall(data)

        threading.Thread(target=ask, daemon=True).start()
        while data := server.recv(65536):
            client.sendall(change(data))


CHANGES = [
    pytest.param(lambda data: data.replace(b"*3\r\n$", b"*3\r\n:7\r\n$"), id="element"),
    pytest.param(lambda data: data.replace(b"*3\r\n$", b"*2\r\n$"), id="fewer"),
    pytest.param(lambda data: data.replace(b"\xffone", b"\xffONE").replace(b"\xff", b"\xf0"),
                 id="marker"),
    pytest.param(lambda data: data.replace(b":3", b":-3"), id="ttl"),
    pytest.param(lambda data: data.replace(b"$8\r\n", b"$7\r\n"), id="short"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_server_whose_answers_are_damaged(change, redis, start, origin):
    """Issue 20, item 1: no answer of it is believed that is not whole."""
    hostile = Hostile(lambda connection: between(connection, redis.path, change))
    try:
        first = start(redis.uri)
        second = start(hostile.uri, is_up=False, timeout="100ms")
        get(first, at(origin))
        wait_until(lambda: redis.keys("v2"))
        for number in range(5):
            assert get(second, at(origin)).payload == b"one"
            assert get(second, at(origin, "n%d" % number)).payload == b"one"
        second.assert_alive()
    finally:
        hostile.close()


def test_a_server_that_is_not_there(start, origin):
    """Issue 20, item 1: the proxy starts, says so once, and answers."""
    uri = "redis://127.0.0.1:%d/0" % closed_port()
    proxy = start(uri, is_up=False)
    proxy.wait_for_line(r"^shared_cache_down\b")
    assert get(proxy, at(origin)).payload == b"one"
    assert len(re.findall(r"^shared_cache_down\b.*connection=commands", proxy.text, re.M)) == 1


@pytest.mark.parametrize("value, error", [
    ("cache.shared=redis://127.0.0.1:6379/70000", "expected redis://"),
    ("cache.shared=redis://127.0.0.1:0", "expected redis://"),
    ("cache.shared=redis://[ff02::1]:6379", "expected redis://"),
    ("cache.shared=http://127.0.0.1:6379", "expected redis://"),
    ("cache.shared=redis://a_b..c", "expected redis://"),
    ("cache.shared=redis://127.1", "expected redis://"),
    ("cache.shared=redis://name:", "expected redis://"),
    ("cache.shared=redis://name:65536", "expected redis://"),
    ("cache.shared-key=/x", "together"),
    ("cache.shared=unix:relative", "expected redis://"),
    ("cache.shared-prefix=a b", "expected letters"),
    ("cache.shared-user=cri", "password-file"),
    ("cache.shared-private=yes", "cluster.secret-file"),
    ("cache.shared-password-file=/nonexistent/file", "cannot be read"),
])
def test_configuration_that_is_refused(value, error):
    """Issue 20, item 1: each key says what it wants."""
    done = run_criproxyd("--check-config", "--set", value)
    assert done.returncode != 0
    assert error in done.stderr + done.stdout
