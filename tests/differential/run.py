#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The cri tool against model.py on random input: run.py --tool CRI [--count N] [--seed S]

A seed of 0 is one of the moment."""
import argparse
import json
import random
import subprocess
import sys

import model
from model import Cri, Refused

TIMEOUT_S = 120
DESTINATIONS = [("192.0.2.1", 5683), ("198.51.100.1", 61616), ("[2001:db8::1]", 5684),
                ("[fe80::1]", 80), ("203.0.113.7", 443)]
TEXTS = ["", "a", "b", ".", "..", "...", "a.b", "A", "z9", "%", "a/b", "a:b", "@", "&", "=", "?",
         "#", "[", "]", "[::1]", " ", "\x00", "\n", "\x7f", "\u00e9", "e\u0301", "\u65e5\u672c",
         "\U0001f600", "\uffff", "\u200d", "127", "0", "1", "256", "~", "!", "'", "\"", "\\", "+",
         "a" * 23, "b" * 24, "c" * 255, "d" * 256]
BYTES = [b":", b"/", b";", b"\xff", b"\xc3", b"\xc3\xa9", b"\x00", b"%", b"&", b".", b"a",
         b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90", b"\xa9", b"\xc3(", b"#"]
PIECES = ["a", "b", "A", ".", "..", "%2E", "%2e%2e", "%41", "%C3%A9", "%ff", "%C3", "%c3%28",
          "%3A", "%2F", "%26", "%3F", "%23", "%40", "%21", "%25", "%5B", "%00", "%E2%82", "%7E",
          ":", "@", "!", "&", "=", "~", "+", "127", "0", "1", "c", "e%CC%81", "%F0%9F%98%80",
          "%zz", "%", " ", "\"", "[", "^"]


class Generator:
    def __init__(self, source):
        self.source = source

    def one(self, *choices):
        return self.source.choice(choices)

    def text(self):
        return "".join(self.source.choices(TEXTS, k=self.one(0, 1, 1, 1, 2)))

    def item(self, odds=6):
        if self.source.randrange(odds):
            return self.text()
        return [self.source.choice(self.one(BYTES, TEXTS)) for _ in range(self.one(0, 1, 2, 3))]

    def label(self):
        text = self.item(12)
        if isinstance(text, str) and self.source.randrange(4):
            text = model.lower(text.replace(".", ""))
        return text

    def items(self, few=3):
        return [self.item() for _ in range(self.source.randrange(few + 1))]

    def authority(self):
        out = [False, self.item()] if not self.source.randrange(8) else []
        if self.source.randrange(3):
            out += [self.label() for _ in range(self.one(0, 1, 1, 2, 2, 4))]
        else:
            out.append(self.source.randbytes(self.one(4, 4, 4, 16, 16, 16, 5)))
            if len(out[-1]) == 16 and self.source.randrange(2):
                out[-1] = self.one(bytes(10) + b"\xff\xff\x01\x02\x03\x04", bytes(15) + b"\x01",
                                   b"\x20\x01" + bytes(6) + b"\0\1\0\0\0\0\0\1", bytes(16))
            out += [self.one("eth0", "")] if not self.source.randrange(6) else []
        out += [self.one(0, 80, 443, 5683, 5684, 65535)] if not self.source.randrange(3) else []
        return out

    def path(self):
        return self.one(None, [], self.items(), self.items(), self.items())

    def reference(self):
        local = [self.path(), self.one(None, [], self.items(2)),
                 self.one(None, None, self.item())]
        first = self.one(-1, -1, -2, -3, -4, -7, -25, -1000, "a", "coap", None, True, 0, 0, 1, 1,
                         2, 9, 127, 128)
        if first is True or (model.is_int(first) and first >= 0):
            out = [first, *local]
        else:
            out = [first, self.one(None, True, self.authority(), self.authority(),
                                   self.authority(), self.authority()), *local]
        while len(out) > 1 and out[-1] is None and self.source.randrange(30):
            out.pop()
        while len(out) > 1 and out[-1] in ([], None) and self.source.randrange(4):
            out.pop()
        return out

    def full(self):
        """A full CRI, valid."""
        for _ in range(1000):
            try:
                cri = model.from_items(json_like(self.reference()))
            except Refused:
                continue
            if cri.scheme is not None:
                return cri
        raise AssertionError("no full CRI in 1000")

    def uri_part(self, few):
        return "".join(self.source.choices(PIECES[:self.one(28, 36, len(PIECES))],
                                           k=self.source.randrange(few + 1)))

    def uri(self):
        scheme = self.one("", "", "", "coap:", "COAP:", "http:", "a:", "urn:", "x+y.z-1:", "1x:")
        host = ""
        if self.source.randrange(2):
            host = "//" + self.one("", "", "", self.uri_part(2) + "@")
            host += self.one(self.uri_part(4), "h", "1.2.3.4", "1.2.3.04", "256.1.1.1", "[::1]",
                             "[2001:DB8::1:0:0:1]", "[::ffff:1.2.3.4]", "[v1.x]", "[::1%25e]",
                             "A.b", "%31.2.3.4", "0x7f.1", "1.2.3")
            host += self.one("", "", "", ":", ":80", ":5683", ":080", ":65535", ":65536", ":x")
        path = "".join(self.one("/", "/", "", "./", "../", "/..", "/.") + self.uri_part(2)
                       for _ in range(self.source.randrange(5)))
        query = self.one("", "", "?" + self.uri_part(4), "?a&b&", "?")
        fragment = self.one("", "", "", "#" + self.uri_part(3), "#")
        return scheme + host + path + query + fragment

    def options(self):
        out = [[3, self.one("h", "H.Example", "a.b", "1.2.3.4", "[::1]", "[::1", self.text(),
                            ".".join([self.text(), self.text()]))]] if self.source.randrange(3) else []
        out += [[7, self.one(0, 80, 5683, 5684, 65535)]] if not self.source.randrange(3) else []
        out += [[11, self.text()] for _ in range(self.source.randrange(3))]
        out += [[15, self.text()] for _ in range(self.source.randrange(3))]
        return {"scheme": self.one("coap", "coap", "coaps", "coap+tcp", "coaps+ws", "http", ""),
                "options": out}


def json_like(item):
    return [json_like(part) for part in item] if isinstance(item, (list, tuple)) else item


def batch(tool, arguments, lines):
    done = subprocess.run([tool, *arguments], input="".join(x + "\n" for x in lines).encode(),
                          stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    output = done.stdout.decode().split("\n")[:-1]
    if len(output) != len(lines):
        raise SystemExit(f"{arguments}: {len(output)} lines for {len(lines)}")
    return output


class Comparison:
    def __init__(self, tool):
        self.tool = tool
        rows = [row.split() for row in batch_table(tool)]
        self.names = {int(number): name for number, name, _ in rows}
        self.numbers = {name: int(number) for number, name, _ in rows}
        self.ports = {int(number): int(port) for number, _, port in rows if port != "-"}
        self.wrong = []
        self.count = 0
        self.good = 0

    def run(self, arguments, cases):
        """cases: (input line, function that gives the result or raises Refused)."""
        output = batch(self.tool, arguments, [line for line, _ in cases])
        for (line, expected), got in zip(cases, output):
            self.count += 1
            try:
                wanted = expected()
                self.good += 1
            except Refused as refused:
                wanted = f"error: {refused}"
            is_same = (got.startswith("error: ") if wanted.startswith("error: ")
                       else json_same(got, wanted))
            if not is_same:
                self.wrong.append(f"{' '.join(arguments)} <- {line}\n    got {got}\n  model {wanted}")


def json_same(got, wanted):
    if got.startswith("{") and wanted.startswith("{"):
        return json.loads(got) == json.loads(wanted)
    return got == wanted


def batch_table(tool):
    return subprocess.run([tool, "schemes"], stdout=subprocess.PIPE, check=True,
                          timeout=TIMEOUT_S).stdout.decode().splitlines()


def destination(text, port):
    address = (model.host_of(text)["ip"] if text.startswith("[")
               else bytes(int(part) for part in text.split(".")))
    return address, port


def compare_all(comparison, generator, count):
    c = comparison
    encoded = [model.cbor(generator.reference()).hex() for _ in range(count)]
    for index in range(0, count, 5):  # a byte of some is another
        data = bytearray.fromhex(encoded[index])
        data[generator.source.randrange(len(data))] = generator.source.randrange(256)
        encoded[index] = data.hex()

    def decoded(text):
        return model.decode(bytes.fromhex(text))

    c.run(["check"], [(e, lambda e=e: "full" if decoded(e).scheme is not None else "relative")
                      for e in encoded])
    c.run(["to-uri"], [(e, lambda e=e: model.to_uri(decoded(e), c.names)) for e in encoded])
    uris = [generator.uri() for _ in range(count)]
    uris = [uri for uri in uris if "\n" not in uri]
    c.run(["from-uri"], [(u, lambda u=u: model.encode(model.from_uri(u, c.numbers, c.ports)).hex())
                         for u in uris])
    for text, port in DESTINATIONS:
        to = destination(text, port)
        c.run(["options", "--to", f"{text}:{port}"],
              [(e, lambda e=e: json.dumps(model.to_options(decoded(e), to, c.names, c.ports)))
               for e in encoded])
        requests = [generator.options() for _ in range(count // 5)]
        c.run(["from-options", "--to", f"{text}:{port}"],
              [(json.dumps(r), lambda r=r: model.encode(
                  model.from_options(r, to, c.numbers, c.ports)).hex()) for r in requests])
    for _ in range(10):
        base = generator.full()
        c.run(["resolve", "--base", model.encode(base).hex()],
              [(e, lambda e=e: model.encode(model.resolve(base, decoded(e))).hex())
               for e in encoded[:count // 5]])
    items = [json_like(generator.reference()) for _ in range(count)]
    plain = [model.cbor(item).hex() for item in items]
    named = {**c.ports, **{name: c.ports.get(number) for name, number in c.numbers.items()}}
    c.run(["diag"], [(e, lambda i=i: model.notation(i)) for e, i in zip(plain, items)])
    c.run(["from-diag"], [(model.notation(i), lambda e=e: e) for e, i in zip(plain, items)])
    c.run(["normalize"], [(e, lambda i=i: model.encode(model.normalize(i, named)).hex())
                          for e, i in zip(plain, items)])
    valid = [e for e in encoded if is_valid(e)]
    pairs = [(generator.source.choice(valid[:50]), generator.source.choice(valid[:50]))
             for _ in range(count)]
    for options, with_fragment in (([], False), (["--fragment"], True)):
        c.run(["compare", *options],
              [(f"{a} {b}", lambda a=a, b=b: "equal" if decoded(a).key(with_fragment)
                == decoded(b).key(with_fragment) else "different") for a, b in pairs])


def is_valid(text):
    try:
        model.decode(bytes.fromhex(text))
        return True
    except Refused:
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20261122)
    arguments = parser.parse_args()
    seed = arguments.seed or random.SystemRandom().randrange(2**32)
    print("seed", seed)
    comparison = Comparison(arguments.tool)
    compare_all(comparison, Generator(random.Random(seed)), arguments.count)
    for wrong in comparison.wrong[:20]:
        print(wrong)
    print(f"{comparison.count} cases, {comparison.good} accepted, {len(comparison.wrong)} wrong")
    return 1 if comparison.wrong or comparison.good < comparison.count // 10 else 0


if __name__ == "__main__":
    sys.exit(main())
