# SPDX-License-Identifier: BSD-2-Clause
"""RFC 8075 section 7, table 2, walked over sockets: some 200 requests, each of which an origin server
answers with a code of the table, with and without a payload. What HTTP clients have to get is written
down here from the RFC, apart from the proxy's own table. HC-6, HC-7."""

import http.client
import re

from coap_wire import PATIENCE_S, Message, Origin, code, uint
from conftest import UNHURRIED
from processes import Proxy

MAX_AGE, URI_PATH = 14, 11

# CoAP code: status without a payload, and with one. 4.08 is N/A there (note 10), 2.03 needs a validator.
ERRORS = {"4.00": 400, "4.01": 403, "4.02": 500, "4.03": 403, "4.04": 404, "4.05": 400, "4.06": 406,
          "4.12": 412, "4.13": 413, "4.15": 415, "5.00": 500, "5.01": 501, "5.02": 502, "5.03": 503,
          "5.04": 504, "5.05": 502}
SUCCESSES = {"GET": {"2.05": (200, 200)}, "HEAD": {"2.05": (200, 200)},
             "PUT": {"2.01": (201, 201), "2.04": (204, 200)},
             "POST": {"2.01": (201, 201), "2.02": (204, 200), "2.04": (204, 200)},
             "PATCH": {"2.01": (201, 201), "2.04": (204, 200)},
             "DELETE": {"2.02": (204, 200)}, "QUERY": {"2.05": (200, 200)}}
CODES = {"GET": 1, "HEAD": 1, "POST": 2, "PUT": 3, "DELETE": 4, "QUERY": 5, "PATCH": 6}


def answer_as_asked(request):
    """The path says how: its code and its payload, "/4.04/gone"."""
    words = [value.decode() for value in request.values(URI_PATH)]
    number, detail = words[0].split(".")
    return Message(code=code(int(number), int(detail)), payload="".join(words[2:]).encode(),
                   options=[(MAX_AGE, uint(7))])


def rows():
    for method, successes in SUCCESSES.items():
        table = {text: (status, status) for text, status in ERRORS.items()}
        for text, statuses in {**table, **successes}.items():
            for payload, status in zip(("", "words"), statuses):
                yield method, text, payload, status


def problems_of(method, text, payload, response):
    """What is not as the notes of the table have it."""
    body = response.read().decode()
    if method == "HEAD" or response.status == 204:
        payload = ""
    if body != payload:
        yield "body %r" % body
    if text == "4.05" and response.reason != "CoAP server returned 4.05":  # note 7
        yield "phrase %r" % response.reason
    if text == "5.03" and response.headers["Retry-After"] != "7":  # note 8
        yield "Retry-After %s" % response.headers["Retry-After"]
    if body and text[0] != "2" and response.headers["Content-Type"] != "text/plain;charset=utf-8":
        yield "Content-Type %s" % response.headers["Content-Type"]


def test_table_2_over_sockets():
    """HC-6, HC-7: each code of the table for each method, on one connection."""
    proxy = Proxy(*UNHURRIED, "--listen", "http://127.0.0.1:0", listen=("127.0.0.1",))
    port = int(re.search(r"uri=http://127\.0\.0\.1:(\d+)", proxy.text)[1])
    wrong = []
    with Origin(handler=answer_as_asked) as origin:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        for number, (method, text, payload, status) in enumerate(rows()):
            path = "/hc/coap://127.0.0.1:%d/%s/%d/%s" % (origin.port, text, number, payload)
            client.request(method, path.rstrip("/"))
            response = client.getresponse()
            found = list(problems_of(method, text, payload, response))
            if response.status != status or found:
                wrong.append((method, text, payload, response.status, status, found))
        asked = [request.code for request in origin.requests]
        client.close()
    assert wrong == []
    assert asked == [CODES[method] for method, *_ in rows()]
    assert len(asked) > 200
    proxy.stop_cleanly()
