#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What scenario_play says of scenarios that are wrong. test_failures.py PROGRAM"""
import subprocess
import sys
import tempfile

ASKED = "= Test\na > GET coap://h/x\nh < GET /x\n"

# Lines of a file, and what has to be said about them.
ROWS = [
    (ASKED + 'h > 2.05 "1"\na < 2.05 "2"\n',
     [':5: a < 2.05 "2"', 'got       ACK 2.05 mid=1 token=6101 "1"',
      'because   payload: expected "2", got "1"', "scenario  Test (line 1), seed 1",
      "|------> h          CON GET"]),
    (ASKED + 'h > 2.05 max-age=5\na < 2.05 max-age=6..7\n', ["max-age: expected 6 to 7, got 5"]),
    (ASKED + 'h > 2.05 etag=01\na < 2.05\n', ["etag=01: not expected"]),
    (ASKED + 'h > 2.05\na < 2.05 etag=01\n', ["etag: expected 01, got none"]),
    (ASKED + 'h > 2.05 etag=01\na < 2.05 ... -etag\n', ["etag: expected none"]),
    (ASKED + 'h > 2.05\na < 4.xx ...\n', ["code: expected 4.00 or its like, got 2.05"]),
    (ASKED + 'h > 2.05\na < NON 2.05\n', ["ACK was not expected"]),
    (ASKED + 'h > 2.05\na < token=00 2.05\n', ["token: expected 00, got 6101"]),
    (ASKED + 'h > 2.05\n', ["(the end: nothing else has come)", "nothing was expected"]),
    (ASKED + 'a < 2.05\n', ["nothing came in time"]),
    (ASKED + 'h < again within 1s\n', ["nothing came in time"]),
    (ASKED + 'h < again after 10s..20s\n', ["it came too early"]),
    (ASKED + 'h > 2.05\na < 2.05\nmetric cache_hits = 1\n', ["cache_hits: expected 1, got 0"]),
    (ASKED + 'h > 2.05\na < 2.05\nended answered = 2\n', ["answered: expected 2, got 1"]),
    (ASKED + "h > 2.05 etag=$e\n", ["$e has no value yet"]),
    (ASKED + 'h > 2.05 "a"*3+"bc"\na < 2.05 "a"*2+"bc"\n', ['expected "aabc", got "aaabc"']),
    (ASKED + 'h > 2.05 "a"*131073\n', ["not a text in quotation marks"]),
    (ASKED + 'h > 2.05 "a"+b\n', ["not a text in quotation marks"]),
    (ASKED + "h > bytes 60 45 MID TOKEN\na < 2.05\n", ["nothing came in time"]),
    (ASKED + "h > bytes 68 45 MID TOKEN\na < 4.04\n", ["code: expected 4.04, got 2.05"]),
    (ASKED + "h > 2.05\na < 2.05\na > GET coap://h/x @2\nh < GET /x\na > again @2\n"
     "a < ACK @2\nh > ACK\nh > 2.05\na < 2.05 @2\na > GET coap://h/x @3\nh < GET /x\n"
     "a > again @3\na < ACK @2\n", ["mid: expected 2, got 3"]),
    ("= Test\ndefine f\n    a > GET coap://h/{path}\nf\nh < GET /y\nwhere path\n    x\n",
     ['"x"', ":5: h < GET /y"]),
    ("= Test\nclient w ws\nw > slowly GET coap://h/x\n", ["slowly: only on TCP and TLS"]),
    ("= Test\na > slowly GET coap://h/x\n", ["slowly: only on TCP and TLS"]),
    ("= Test\nin-flight = 1\n", ["in-flight: expected 1, got 0"]),
    ("= Test\nmetric requests >= 1\n", ["requests: expected at least 1, got 0"]),
    ("= Test\nmetric requests > 1\n", ["NAME = NUMBER, or NAME >= NUMBER"]),
    ("= Test\nh > RST @p\n", ["no request of that name"]),
    (ASKED + "h refuses\nh > 2.05\na < 2.05\n", ["got 5.02"]),
    ("session s tcp 192.0.2.5:5683 h\n= Test\na > GET proxy-uri=coap+tcp://h/x\ns < GET ...\n"
     "s fails oddly\n", ["fails HOW"]),
    ("= Test\nquestions = x\n", ["questions: expected x, got 0"]),
    ("= Test\nclient t tcp\nt > PING\nt < PONG\nt idles kept\n", ["the connection is not kept"]),
    ("= Test\nclient t tcp\nt > PING\nt < PONG\nt idles 9s\n", ["closed at another time"]),
    ("= Test\nlisten 192.0.2.9:8080 udp\n", ["before the first such client"]),
    ("origin o 192.0.2.6\n= Test\nconfig no.such=1\na > GET coap://o/x\n",
     [":3: config no.such=1", "because   expected the section proxy"]),
    ("config proxy.hop-limit=yes ; cache.maxbytes=1MiB\n= Test\nconfig cache.coalesce=yes\n+1s\n",
     [":1: config proxy.hop-limit=yes ; cache.maxbytes=1MiB",
      'because   [cache]: no such key: "maxbytes"; did you mean max-bytes?', "(line 2), seed 1"]),
    ("config cache.max-bytes=1MiB, cache.coalesce=yes\n= Test\n+1s\n",
     [":1: config cache.max-bytes", 'between settings stands " ; "']),
    ("= Test\n+1s\nreload cache.maxbytes=1MiB\n",
     [":3: reload cache.maxbytes=1MiB", 'because   [cache]: no such key: "maxbytes"']),
    ("config passers\n" + ASKED + 'h > 2.05\na < 2.05\nended answered = 1\nmetric requests = 1\n',
     ["requests: expected 1, got 2"]),
    (ASKED.replace("/x\n", "/x observe=0\n", 1).replace("GET /x", "GET /x observe=0")
     + "h > 2.05 observe=5\na < 2.05 observe=$n\nh > NON 2.05 observe=6\n"
     + "a < 2.05 observe=$n>$n\nh > NON 2.05 observe=7\na < 2.05 observe=$n\n",
     ["observe: expected 10000"]),
    ("= Test\nlisten 192.0.2.9:5700\na > GET coap://h/x\na uses 192.0.2.9:5700\nh < GET /x\n"
     "h > 2.05\na < 2.05\n", ["from another address of the proxy"]),
    ("= Test\nname x = 192.0.2.99\na > GET coap://x/y\n",
     [":3: (the end: nothing is left in the proxy)",
      "left: a datagram of 16 bytes to 192.0.2.99:5683, where nothing is", "a          ------>|"]),
    # What is left at the end.
    (ASKED, [":3: (the end: nothing is left in the proxy)",
             "left: 1 request (a, mid=1, GET coap://h/x), waits for h\n", "|------> h          CON GET"]),
    ("client t tcp\n" + ASKED + "t > POST coap://h/y\nh < POST /y\n",
     ["left: 2 requests (a, mid=1, GET coap://h/x), waits for h; "
      "(t, token=7401, POST coap://h/y), waits for h\n"]),
    ("= Test\nh ignores the rest\nrepeat 7\n    a > GET coap://h/{n}\n",
     ["left: 7 requests (a, mid=1,", "; (a, mid=4, GET coap://h/4), waits for h; (a, mid=5, "
      "GET coap://h/5), waits for the origin server's window; and 2 more\n"]),
    (ASKED + '+1s\na < ACK\nh > 2.05\na < CON 2.05 mid=*\n',
     ["left: 1 answer (CON mid=", ", to the request of a, mid=1), not acknowledged\n"]),
    ("name n = 192.0.2.5 after 9s\n= Test\na > GET coap://n/x\n",
     ["left: 1 request (a, mid=1, GET coap://n/x), waits for the addresses of the target's name, "
      "and 1 question to the resolver (n), not answered\n"]),
    # The ladder has the time at which something came.
    (ASKED + "+5s\na < ACK\na < 2.05\n", ["     0.250  a          <------|                   ACK"]),
    ("client s dtls\n= Test\ns > GET coap://h/x\nh < GET /x\n+5s\nb > GET coap://h/y\ns < ACK\n"
     "s < 2.05\n",
     ["     0.250  s          <------|                   ACK empty mid=1\n"
      "     5.000  b          ------>|"]),
    (ASKED + "+5s\na < ACK after 250ms..300ms\n", ["it came too early"]),
    # Lines that nearly are one.
    *(("= Test\n%s\n" % line, [":2: %s\n  because   a time is +10s, +250ms, +2min\n" % line])
      for line in ("+10", "+10sec", "+ 10s", "+", "+10s 1")),
    *(("= Test\n%s GET coap://h/x\n" % line,
       [":2: %s GET" % line, 'because   a blank stands on both sides of "%s"' % sign])
      for line, sign in (("a>", ">"), ("a <CON", "<"), ("h<CON", "<"), ("h >CON", ">"))),
    ("= Test\na >\n", ['a message stands behind ">"']),
    ("= Test\nz >GET coap://h/x\n", ["no such actor, word or definition"]),
    ("= Test\na < nothing within 3s\n", ['nothing comes "for" a time, as in: nothing for 3s']),
    ("= Test\na < nothing after 1s..3s\n", ['nothing comes "for" a time']),
    (ASKED + "h > 2.05\na < 2.05 for 3s\n", ['a message comes "within" a time, or "after 2s..3s"']),
    ("web w 192.0.2.5:80\n= Test\na > GET proxy-uri=http://h/x\nw < GET http://h/x a=b\n",
     ["a: expected b in"]),
    ("web w 192.0.2.6:80\n= Test\na > GET proxy-uri=http://h/x\nw < GET http://h/x\n",
     ["got 192.0.2.5:80 GET http://h/x"]),
    ("client t http\n= Test\nt > GET /\nt < 200 ...\n", ["expected status 200, got"]),
    ("client t http\n= Test\nt > GET /\nt < 404\n", ['expected "", got']),
    ("client t http\n= Test\nt > GET /\nt < 404 ~\"found\"\n", ['expected ~"found", got']),
    ("client t http\n= Test\nt > GET /\nt < 404 -via ...\n", ["via: expected none in"]),
    ("client t http\n= Test\nt > GET /\n", ["nothing was expected:"]),
    ("client t tcp\n= Test\nt is refused\n", ["the connection is accepted"]),
    (ASKED + "h refuses oddly\n", ["refuses, or unreachable"]),
    ("= Test\na > GET coap://h/x no-such=1\n", ["not an option: no-such"]),
    ("= Test\na > get coap://h/x\n", ["not a code, type, option, target or payload: get"]),
    ("= Test\na > GET h/x\n", ["not a code, type, option, target or payload: h/x"]),
    ("= Test\nclient t tcp\nt > CSM block-wise-transfer\nt < 2.5\n",
     [":4: t < 2.5", "not a code, type, option, target or payload: 2.5"]),
    (ASKED + "h < again within 3\n", ["not a time, as in 300ms or 2s: 3"]),
    ("= Test\nz > GET coap://h/x\n", ["no such actor, word or definition"]),
    ('= Test\na > GET "x\n', ["a quotation does not end"]),
    ("= Test\na > GET coap://h/x\n  h < GET\n", [":3: indented below a line that has no block"]),
    ("= Test\nwhere a | b\n    1\n", [":3: not as many cells as columns"]),
    ("= Test\ndefine f\n    f\nf\n", ["definitions too deep in each other"]),
    ("a > GET coap://h/x\n", ["no scenario"]),
    ('= Test\na > GET coap://h/x/y?k&l=1 -> h @1\nh > 2.05 max-age=5 "1" @1 -> a 2.05 max-age=5 "2"\n',
     [':3: a < 2.05 max-age=5 "2"', 'got       ACK 2.05 mid=1 token=6101 max-age=5 "1"']),
    ('= Test\na > GET coap://h/x -> h -> b\n', [":2: b < GET //h/x"]),
    ('= Test\na > CON GET coap://h/x token=aa mid=7 "-> c" -> h POST /x\n', [":2: h < POST /x", "code:"]),
    ("= Test\na > GET coap://192.0.2.5/x -> h -> a ACK\n", [":2: a < ACK"]),
    ("= Test\na > GET coap://h/x\nh < GET //g/x\n", ['because   uri-host: expected "g"']),
    ("= Test\na > GET coap://192.0.2.5/x -> h GET //h/x\n", ['uri-host: expected "h"']),
    ("= Test\na > GET coap://h/%41 -> h\n", ["has to be written here, behind the arrow"]),
    ("= Test\na > ACK -> h\n", ["has to be written here, behind the arrow"]),
    ("= Test\na < ACK -> h\n", ["only what an actor sends has an arrow"]),
    ('= Test\nrepeat 8..9 i\n    a > GET coap://h/x{i*16-1:x3} "{i}{j+1}{1}{i/0}" -> h GET /x07f\n',
     [":3: h < GET /x07f", 'payload: expected none, got "8{j+1}{1}{i/0}"']),
    ("= Test\nrepeat 0\n    a > GET coap://h/x\n", ['"repeat N" or "repeat A..B NAME"']),
    ("= Test\nrepeat 3..2\n    a > GET coap://h/x\n", ['"repeat N" or "repeat A..B NAME"']),
    ("= Test\nrepeat 3 4\n    a > GET coap://h/x\n", ['"repeat N" or "repeat A..B NAME"']),
]


# Of the program that runs the tests, not of a scenario.
UNWANTED = ["[ RUN", "[=====", "[  FAILED", "[  PASSED", "FAILED TEST", "runner.c"]


def runner_is_understood():
    """It says how it is called, and a word that it does not know is no file."""
    asked = subprocess.run([*sys.argv[1:], "--help"], capture_output=True, text=True, timeout=60,
                           check=False)
    wrong = subprocess.run([*sys.argv[1:], "--hlep"], capture_output=True, text=True, timeout=60,
                           check=False)
    is_good = (asked.returncode == 0 and "--workers" in asked.stdout and wrong.returncode == 2
               and wrong.stderr.startswith("usage: "))
    if not is_good:
        print("--help: %s\n--hlep: %s" % (asked, wrong))
    return is_good


def main():
    bad = 0 if runner_is_understood() else 1
    with tempfile.NamedTemporaryFile("w", suffix=".scn") as file:
        for text, expected in ROWS:
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
            done = subprocess.run([*sys.argv[1:], file.name], capture_output=True, text=True,
                                  timeout=60, check=False)
            said = done.stdout + done.stderr
            missing = [words for words in expected if words not in said]
            unwanted = [words for words in UNWANTED if words in said]
            if done.returncode != 1 or missing or unwanted:
                bad += 1
                print("%s\nexit %d, not said: %s, but: %s\n%s"
                      % (text, done.returncode, missing, unwanted, said))
    print("%d rows, %d wrong" % (len(ROWS), bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
