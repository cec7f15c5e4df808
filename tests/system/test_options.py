# SPDX-License-Identifier: BSD-2-Clause
"""Options and codes that pass through the proxy, and those that do not."""

import pytest

from coap_wire import (ACCEPT, ACK, CONTENT_FORMAT, ETAG, HOP_LIMIT, IF_MATCH, LOCATION_PATH,
                       MAX_AGE, NON, POST, PUT, URI_HOST, URI_PATH, Message, code)
from target import FORMS, Target

IF_NONE_MATCH, OBSERVE, LOCATION_QUERY, BLOCK2, BLOCK1, ECHO, REQUEST_TAG = 5, 6, 20, 23, 27, 252, 292

# Unsafe is bit 1 of the number: none of these has it. 65 and 2049 are critical.
SAFE_UNKNOWN = {
    "critical": [(65, b"\x01")],
    "elective": [(64, b"\x02")],
    "empty": [(65, b"")],
    "longest short length": [(2049, b"x" * 12)],
    "one byte of length": [(2049, b"x" * 13)],
    "255 bytes": [(65, bytes(range(255)))],
    "268 bytes": [(65, b"y" * 268)],
    "269 bytes": [(65, b"y" * 269)],
    "600 bytes": [(64, b"z" * 600)],
    "payload markers": [(65, b"\xff\xff\xff")],
    "repeated in order": [(65, b"3"), (65, b"1"), (65, b"2"), (65, b"1")],
    "the greatest number": [(65533, b"end")],
    "number zero": [(0, b"zero")],
    "several": [(64, b"a"), (65, b"b"), (1000, b"c"), (1001, b""), (40000, b"d")],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SAFE_UNKNOWN)
def test_unknown_safe_options_reach_the_origin(client, origin, form, name):
    """OPT-2, OPT-11, OPT-20: same number, value and order, critical or not."""
    options = SAFE_UNKNOWN[name]
    target = Target("127.0.0.1", origin.port, ("x",))
    assert client.ask(target.options(form) + options).code_text == "2.05"
    arrived = [o for o in origin.requests[0].options if o[0] not in (URI_PATH, HOP_LIMIT)]
    assert arrived == sorted(options, key=lambda option: option[0])


@pytest.mark.parametrize("name", SAFE_UNKNOWN)
def test_unknown_safe_options_come_back(client, origin, name):
    """OPT-7, OPT-11: the same for what the origin adds to its response."""
    options = SAFE_UNKNOWN[name]
    origin.handler = lambda request: Message(code=code(2, 5), options=options, payload=b"p")
    answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
    assert answer.code_text == "2.05"
    assert answer.options == sorted(options, key=lambda option: option[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("type", [0, NON], ids=["CON", "NON"])
@pytest.mark.parametrize("number", [2, 67, 66, 65535])
def test_unknown_unsafe_options_are_refused(client, origin, form, type, number):
    """OPT-3, OPT-4: 4.02 with the option's number, nothing upstream, elective or critical."""
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options(form) + [(number, b"v")], type=type)
    assert answer.code_text == "4.02"
    assert str(number).encode() in answer.payload
    assert answer.type == (ACK if type == 0 else NON)
    assert not origin.requests


@pytest.mark.parametrize("number", [2, 67, 65535])
def test_unknown_unsafe_options_of_a_response_are_an_origin_fault(client, origin, number):
    """OPT-8, ERR-11: 5.02 in place of a response that the proxy does not understand."""
    origin.handler = lambda request: Message(code=code(2, 5), options=[(number, b"v")])
    answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
    assert answer.code_text == "5.02"
    assert (number, b"v") not in answer.options


def test_max_age_in_a_request_is_refused(client, origin):
    """OPT-9: undefined for requests and unsafe, so unrecognised."""
    target = Target("127.0.0.1", origin.port, ("x",))
    assert client.ask(target.options("cri") + [(MAX_AGE, b"\x3c")]).code_text == "4.02"
    assert not origin.requests


PASSED_IN_REQUESTS = [
    (IF_MATCH, b"\x00\x01"), (IF_MATCH, b""), (ETAG, b"\x00\x00\x07"), (ETAG, b"two"),
    (CONTENT_FORMAT, b"\x32"), (ACCEPT, b"\x00\x32"), (ECHO, b"\x00echo"),
    (REQUEST_TAG, b"b"), (REQUEST_TAG, b"a"),
]


def test_known_safe_options_pass_to_the_origin(client, origin):
    """OPT-11, OPT-12, OPT-15, OPT-17: values as they were, uints with leading zeros too."""
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options("cri") + PASSED_IN_REQUESTS, method=PUT, payload=b"p")
    assert answer.code_text == "2.05"
    arrived = [o for o in origin.requests[0].options if o[0] not in (URI_PATH, HOP_LIMIT)]
    assert arrived == PASSED_IN_REQUESTS


@pytest.mark.parametrize("options", [
    [(IF_NONE_MATCH, b"")],
    [(IF_NONE_MATCH, b"\0")],
    [(ACCEPT, b"\x32"), (ACCEPT, b"\x3c")],
    [(CONTENT_FORMAT, b"\0\0\0")],
], ids=["empty", "empty format with a value", "repeated", "too long"])
def test_odd_safe_options_are_the_origins_business(client, origin, options):
    """OPT-10, OPT-17: a bad length makes a safe option unknown, and unknown safe ones pass."""
    target = Target("127.0.0.1", origin.port, ("x",))
    assert client.ask(target.options("cri") + options, method=PUT).code_text == "2.05"
    arrived = [o for o in origin.requests[0].options if o[0] not in (URI_PATH, HOP_LIMIT)]
    assert arrived == options


RESPONSES = {
    "nothing at all": [],
    "etag with leading zeros": [(ETAG, b"\x00\x00\x01")],
    "etag of zeros": [(ETAG, b"\x00" * 8)],
    "content-format 0": [(CONTENT_FORMAT, b"")],
    "content-format with a zero": [(CONTENT_FORMAT, b"\x00\x32")],
    "max-age": [(MAX_AGE, b"\x3c")],
    "max-age 0": [(MAX_AGE, b"")],
    "greatest max-age": [(MAX_AGE, b"\xff\xff\xff\xff")],
    "all": [(ETAG, b"\x00\x02"), (CONTENT_FORMAT, b"\x3c"), (MAX_AGE, b"\x05")],
    "location": [(LOCATION_PATH, b"new"), (LOCATION_PATH, b""), (LOCATION_QUERY, b"v=1")],
    "reserved location": [(128, b"r"), (132, b""), (136, b"s"), (140, b"t")],
    "two etags": [(ETAG, b"\x01"), (ETAG, b"\x02")],
    "echo": [(ECHO, b"\x00\x01\x02")],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RESPONSES)
def test_responses_come_back_unchanged(client, origin, form, name):
    """OPT-12, OPT-15, OPT-18, OPT-19: absent stays absent, present keeps every byte."""
    options = RESPONSES[name]
    origin.handler = lambda request: Message(code=code(2, 4), options=options, payload=b"\x00p")
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options(form), method=POST)
    assert (answer.code_text, answer.options, answer.payload) == ("2.04", options, b"\x00p")


@pytest.mark.parametrize("class_, detail", [
    (2, 1), (2, 2), (2, 4), (2, 5), (2, 25), (4, 0), (4, 1), (4, 4), (4, 6), (4, 15), (4, 31),
    (5, 0), (5, 3), (5, 5), (5, 31),
])
def test_response_codes_pass_unchanged(client, origin, class_, detail):
    """ERR-19, MSG-40: the origin's answer, its payload and options, errors and unknown codes."""
    options = [(ETAG, b"\0e"), (MAX_AGE, b"\x01")]
    origin.handler = lambda request: Message(
        code=code(class_, detail), options=options, payload=b"why")
    answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"), method=POST)
    assert (answer.code, answer.options, answer.payload) == (code(class_, detail), options, b"why")


@pytest.mark.parametrize("class_, detail", [(3, 0), (3, 5)])
def test_reserved_response_classes_are_an_origin_fault(client, origin, class_, detail):
    """MSG-40: class 3 means nothing."""
    origin.handler = lambda request: Message(code=code(class_, detail))
    answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
    assert answer.code_text == "5.02"


def test_uri_options_in_a_response_are_an_origin_fault(client, origin):
    """OPT-9: Uri-Path and Uri-Host mean nothing in a response and are unsafe."""
    for number in (URI_HOST, URI_PATH):
        origin.handler = lambda request: Message(code=code(2, 5), options=[(number, b"x")])
        answer = client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
        assert answer.code_text == "5.02"


@pytest.mark.parametrize("sent, arrives", [(16, 15), (2, 1), (255, 254)])
def test_hop_limit_is_counted_down(client, origin, sent, arrives):
    """HOP-3: present, it is one less upstream."""
    target = Target("127.0.0.1", origin.port, ("x",))
    client.ask(target.options("cri") + [(HOP_LIMIT, bytes([sent]))])
    assert origin.requests[0].values(HOP_LIMIT) == [bytes([arrives])]


def test_hop_limit_is_put_in(client, plain_client, origin):
    """HOP-4: 16 where the client sent none, unless hop-limit = no."""
    target = Target("127.0.0.1", origin.port, ("x",))
    client.ask(target.options("cri"))
    plain_client.ask(target.options("cri"))
    assert [request.values(HOP_LIMIT) for request in origin.requests] == [[b"\x10"], []]


def test_hop_limit_runs_out(client, origin):
    """HOP-2, HOP-3, HOP-5: 1 ends here with 5.08 and a name without spaces; 0 is an error."""
    target = Target("127.0.0.1", origin.port, ("x",))
    over = client.ask(target.options("cri") + [(HOP_LIMIT, b"\x01")])
    zero = client.ask(target.options("cri") + [(HOP_LIMIT, b"\x00")])
    assert over.code_text == "5.08"
    assert over.payload and b" " not in over.payload
    assert zero.code_text == "4.00"
    assert not origin.requests


def test_observe_is_the_proxys_own(client, origin):
    """OPT-14, OBS-6: the proxy asks on its own behalf; no Observe back, none for the client."""
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options("cri") + [(OBSERVE, b"")])
    assert answer.code_text == "2.05"
    assert origin.requests[0].values(OBSERVE) == [b""]
    assert answer.values(OBSERVE) == []


@pytest.mark.parametrize("number, value, method", [(BLOCK1, b"\x08", PUT), (BLOCK2, b"\x16", 1)])
def test_blocks_pass_through(client, origin, number, value, method):
    """OPT-14, Issue 2: single blocks go both ways as client and origin made them."""
    origin.handler = lambda request: Message(
        code=code(2, 4), options=[(number, value)], payload=b"b" * 16)
    target = Target("127.0.0.1", origin.port, ("x",))
    answer = client.ask(target.options("cri") + [(number, value)], method=method, payload=b"p" * 16)
    assert origin.requests[0].values(number) == [value]
    assert (answer.code_text, answer.values(number)) == ("2.04", [value])
