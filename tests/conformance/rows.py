# SPDX-License-Identifier: BSD-2-Clause
"""The checklist's rows about CRIs, as the cri tool has to answer them.

ROWS: id -> list of (command, input, result). The result is the line, or BAD: any
error, or OK: any line that is none. Inputs in diagnostic notation begin with "[":
they are encoded first. `R(text)` as a command means "resolve against BASE".
"""
BAD = object()
OK = object()

# [-2, ["foo", 4711], ["pa", "th"], ["query"], "frag"]
BASE = "85218263666f6f19126782627061627468816571756572796466726167"

IP6 = "h'fe800000000000000000000000000001'"


def check(result, *inputs):
    return [("check", text, result) for text in inputs]


def bad(*inputs):
    return check(BAD, *inputs)


def strict_bad(*inputs):
    return [("check --strict", text, BAD) for text in inputs]


def same(text, canonical):
    """Accepted, and sent canonically."""
    return check(OK, text) + [("encode", text, canonical)]


def uri(text, result):
    return [("to-uri", text, result)]


def from_uri(text, result):
    return [("from-uri", text, result)]


def both(text, uri_text):
    return uri(text, uri_text) + from_uri(uri_text, text)


def resolved(reference, result, base=BASE):
    return [(f"resolve --base {base}", reference, result)]


def compared(a, b, result, options=""):
    return [(f"compare{options}", (a, b), result)]


def options(text, result, to=""):
    return [("options" + (f" --to {to}" if to else ""), text, result)]


def composed(request, result, to=""):
    return [("from-options" + (f" --to {to}" if to else ""), request, result)]


def coap(*pairs, scheme="coap"):
    listed = ",".join(f'[{number},{value if isinstance(value, int) else chr(34) + value + chr(34)}]'
                      for number, value in pairs)
    return f'{{"scheme":"{scheme}","options":[{listed}]}}'


ROWS = {
    # 1. Decoding and well-formedness
    "CRI-1": bad("00", "60", "40", "a0", "f6", "f90000"),
    "CRI-2": bad("822081616800"),
    "CRI-3": bad("82", "8220", "82208161", "8220816268", "98"),
    "CRI-4": bad("9c", "823c816168", "82207c"),
    "CRI-5": bad("9f20816168ff", "82209f6168ff", "8220817f6168ff", "83208161689f6170ff",
                 "8220815f44c6336401ff"),
    "CRI-6": same("823800816168", "8220816168") + same("980220816168", "8220816168"),
    "CRI-7": bad("81f4", "814100", "8180", "81a0", "81f7", "81f90000", "81c100"),
    "CRI-8": check("relative", "[127]") + bad("[128]"),
    "CRI-9": check("full", '["coap", ["h"]]') + bad('["Coap", ["h"]]', '["", ["h"]]',
                                                    '["1x", ["h"]]', '["co_ap", ["h"]]'),
    "CRI-10": check("full", "823bffffffffffffffff816168", '[-25, ["h"]]')
    + uri("823bffffffffffffffff816168", BAD) + uri('[-25, ["h"]]', "coap+ws://h"),
    "CRI-11": bad("[-1, false]", '[-1, "h"]', "[-1, 0]"),
    "CRI-12": uri('[true, ["a"]]', "/a"),
    "CRI-13": bad('[-1, ["h"], ["p"], ["q"], "f", 0]', '[0, ["p"], ["q"], "f", 0]'),
    "CRI-14": check("relative", "80") + options("80", BAD),
    "CRI-15": check("full", "[-1]") + check("relative", '[null, ["h"]]', "[0]", "80"),
    "CRI-16": bad('[-1, ["h", 5683, "x"]]', "[-1, [\"h\", h'7f000001']]",
                  "[-1, [h'7f000001', \"z\", \"y\"]]"),
    "CRI-17": check("full", '[-4, [false, "", "example", "com"]]')
    + bad("[-4, [false]]", '[-4, [true, "u", "h"]]', '[-4, ["h", false, "u"]]'),
    "CRI-18": check("full", "[-1, [h'c6336401']]")
    + bad("[-1, [h'']]", "[-1, [h'c63364']]", "[-1, [h'0102030405']]", "[-1, [h'" + "00" * 15 + "']]",
          "[-1, [h'" + "00" * 17 + "']]"),
    "CRI-19": check("full", f'[-1, [{IP6}, "eth0"]]'),
    "CRI-20": check("full", '[-1, ["h", 65535]]')
    + bad("82208261681a00010000", '[-1, ["h", -1]]', "8220826168f96400"),
    "CRI-21": bad("[-1, []]", "[-1, [5683]]", '[-1, [false, "u"]]') + check("full", '["x", [""]]'),
    "CRI-22": bad('[-1, ["a.b"]]'),
    "CRI-23": bad('[-1, ["Example", "com"]]'),
    "CRI-24": bad('[-1, ["127", "0", "0", "1"]]', '[-1, ["[::1]"]]'),
    "CRI-25": bad('[-1, ["h"], "p"]', '[-1, ["h"], [1]]', '[-1, ["h"], ["p"], "q"]',
                  '[-1, ["h"], ["p"], [null]]'),
    "CRI-26": both('[-3, ["h"], [], [], ""]', "http://h#"),
    "CRI-27": bad("[-1, null]", '[-1, ["h"], null]', '[-1, ["h"], ["p"], ["q"], null]',
                  "[0, null]", "[null]"),
    "CRI-28": same('[-1, ["h"], []]', "8220816168") + same('[-1, ["h"], ["p"], []]', "8320816168816170")
    + same('[-1, ["h"], [], []]', "8220816168")
    + strict_bad('[-1, ["h"], []]', '[-1, ["h"], ["p"], []]', '[-1, ["h"], [], []]'),
    "CRI-29": same("[0, null, []]", "8300f680") + [("check --strict", "[0, null, []]", "relative")]
    + compared("8300f680", "8100", "different"),
    "CRI-30": same('[-1, ["h"], null, ["q"]]', "842081616880816171"),
    "CRI-31": bad('[null, null, ["p"]]'),
    "CRI-32": bad("82208161ff", "82208162c080", "82208163eda080"),
    "CRI-33": check("full", "83208161688163" + "65cc81") + [("encode", "8320816168816365cc81",
                                                            "8320816168816365cc81")],
    "CRI-34": bad('[-1, ["h"], ["a", ".."]]', '[1, ["."]]')
    + check("full", '[-1, ["h"], ["...", ".a"]]'),
    "CRI-35": bad('["a", null, ["", "b"]]'),
    "CRI-36": both('["a", null, [""]]', "a:/"),
    "CRI-37": check("full", '["a", true, ["b"]]')
    + bad('["a", true]', '["a", true, [""]]', '["a", true, ["", "b"]]'),
    "CRI-39": bad("d8638220816168", "822081c16168"),
    "CRI-40": bad("9affffffff", "9bffffffffffffffff", "82209affffffff", "8220817affffffff"),
    "CRI-41": bad("81" * 1023, "81" * 10000 + "00"),
    "CRI-44": [("encode", '[-1, ["h"], [], []]', "8220816168"), ("encode", "[0]", "80")],
    # 2. Features
    "FEAT-3": uri('["coap", ["h"]]', "coap://h"),
    "FEAT-4": both('[-6, true, ["web:alice:bob"]]', "did:web:alice:bob"),
    "FEAT-5": uri('[-4, [false, "user", "h"]]', "https://user@h"),
    "FEAT-7": bad('[-1, ["h"], [["a"]]]'),
    "FEAT-8": bad("83208161" + "68" + "81" + "9f61614141ff"),
    # 3. CRI to URI
    "C2U-1": uri('[-1, ["h"]]', "coap://h") + uri('[-1000, ["h"]]', BAD),
    "C2U-2": uri('["a", ["b"]]', "a://b"),
    "C2U-3": uri('[null, ["a"]]', "//a"),
    "C2U-4": uri('[null, ["non:port", "x"]]', "//non%3Aport.x") + uri('[-1, ["\u00e9"]]',
                                                                    "coap://%C3%A9"),
    "C2U-5": uri('[-1, ["a.b"]]', BAD),
    "C2U-6": uri("[-1, [h'c6336401', 61616]]", "coap://198.51.100.1:61616")
    + uri("[-1, [h'20010db8000000000001000000000001']]", "coap://[2001:db8::1:0:0:1]"),
    "C2U-7": uri("[-1, [h'00000000000000000000ffffc0a80001']]", "coap://[::ffff:192.168.0.1]"),
    "C2U-8": uri(f'[-1, [{IP6}, "eth0"]]', BAD),
    "C2U-9": uri('[-4, [false, "", "example", "com"]]', "https://@example.com")
    + uri('[-4, [false, "a:b", "h"]]', "https://a:b@h")
    + uri('[null, [false, "alice@example.com", "example", "com"]]',
          "//alice%40example.com@example.com"),
    "C2U-10": uri('[-1, ["h", 5683]]', "coap://h:5683") + uri('[-1, ["h", 0]]', "coap://h:0"),
    "C2U-11": uri('["a", null, ["b"]]', "a:/b") + uri('["a", true, ["b", "c"]]', "a:b/c")
    + uri('[1, ["a", "b"]]', "a/b"),
    "C2U-12": uri('[true, ["a/a%a"]]', "/a%2Fa%25a")
    + uri('[-4, ["alice"], ["3/4-inch"]]', "https://alice/3%2F4-inch"),
    "C2U-13": uri('[true, ["\u20ac"]]', "/%E2%82%AC"),
    "C2U-14": uri('[-1, ["h"]]', "coap://h") + uri('[-1, ["h"], [""]]', "coap://h/"),
    "C2U-15": uri('[-1, ["h"], ["", "a", "", ""]]', "coap://h//a//"),
    "C2U-16": uri('[true, [""], ["a&a"]]', "/?a%26a")
    + uri('[true, ["x"], ["ampersand=&", "questionmark=?"]]', "/x?ampersand=%26&questionmark=?"),
    "C2U-17": uri('[-1, ["h"], [], [""]]', "coap://h?") + uri('[-1, ["h"], [], ["", ""]]',
                                                            "coap://h?&"),
    "C2U-18": uri('[0, null, null, "/"]', "#/") + uri('[0, null, null, "[]"]', "#%5B%5D"),
    "C2U-19": uri("[-6, true, [[\"web:alice:7\", ':', \"1-balun\"]]]",
                  "did:web:alice:7%3A1-balun"),
    "C2U-20": uri('["a", null, ["", "b"]]', BAD) + uri('["a"]', "a:"),
    "C2U-21": uri('["a", true, ["", "b"]]', BAD),
    "C2U-22": uri('[0, ["p"]]', BAD) + uri('[0, null, ["a"]]', "?a") + uri("80", ""),
    "C2U-23": uri('[2, ["a"]]', "../a") + uri('[1, ["this:that"]]', "./this:that")
    + uri('[2, ["a:b"]]', "../a:b"),
    "C2U-24": uri('[true, ["", "b"]]', BAD),
    "C2U-25": uri('[1, ["", "x"]]', ".//x") + uri('[1, [""]]', "./") + uri('[2, [""]]', "../")
    + uri("[1]", BAD) + uri("[2]", BAD) + uri("[true]", BAD) + uri('[true, null, ["q"]]', BAD),
    "C2U-26": check("relative", '[null, true, ["x"]]') + uri('[null, true, ["x"]]', BAD),
    "C2U-27": both("[-1, [h'C6336401', 61616], [\".well-known\", \"core\"]]",
                   "coap://198.51.100.1:61616/.well-known/core")
    + both('[true, [".well-known", "core"], ["rt=temperature-c"]]',
           "/.well-known/core?rt=temperature-c"),
    # 4. URI to CRI
    "U2C-2": from_uri("COAP://h", '[-1, ["h"]]') + from_uri("foo://h", '["foo", ["h"]]'),
    "U2C-3": from_uri("coap://Example.COM.", '[-1, ["example", "com", ""]]')
    + from_uri("x://", '["x", [""]]'),
    "U2C-4": from_uri("coap://a%2Eb", '[-1, ["a", "b"]]'),
    "U2C-5": from_uri("coap://127.0.0.1", "[-1, [h'7f000001']]")
    + from_uri("coap://0127.0.0.1", '[-1, ["0127", "0", "0", "1"]]')
    + from_uri("coap://0x7f.1", '[-1, ["0x7f", "1"]]'),
    "U2C-6": from_uri("coap://[2001:db8::1]", "[-1, [h'20010db8000000000000000000000001']]")
    + from_uri("coap://[v1.x]", BAD) + from_uri("coap://[fe80::1%25eth0]", BAD),
    "U2C-7": from_uri("coap://h:/", '[-1, ["h"], [""]]') + from_uri("x://h:005683", '["x", ["h", 5683]]')
    + from_uri("coap://h:65536", BAD),
    "U2C-8": from_uri("coap://h:5683/x", '[-1, ["h"], ["x"]]'),
    "U2C-9": from_uri("coap://h/a/%2e%2e/b", '[-1, ["h"], ["b"]]'),
    "U2C-10": from_uri("coap://h", '[-1, ["h"]]') + from_uri("coap://h/", '[-1, ["h"], [""]]'),
    "U2C-11": from_uri("urn:x:y", '[-5, true, ["x:y"]]') + from_uri("a:", '["a"]')
    + from_uri("a:/b", '["a", null, ["b"]]'),
    "U2C-12": from_uri("?a%26b&c", '[0, null, ["a&b", "c"]]') + from_uri("?", '[0, null, [""]]')
    + from_uri("?a+b", '[0, null, ["a+b"]]'),
    "U2C-13": from_uri("/a%3Ba", "[true, [[\"a\", h'3B', \"a\"]]]")
    + from_uri("/a%2Fa", '[true, ["a/a"]]') + from_uri("#%2F", "[0, null, null, [h'2F']]"),
    "U2C-14": from_uri("https://host%ffname", "[-4, [[\"host\", h'ff', \"name\"]]]")
    + from_uri("/x?data=%ff", "[true, [\"x\"], [[\"data=\", h'ff']]]"),
    "U2C-15": from_uri("https://alice:x@h", '[-4, [false, "alice:x", "h"]]')
    + from_uri("https://a%40b@h", '[-4, [false, "a@b", "h"]]'),
    "U2C-16": from_uri("coap://h/a b", BAD) + from_uri("coap://h/%zz", BAD)
    + from_uri("coap://h/\u00e9", BAD) + from_uri("coap://h/%", BAD) + from_uri("coap://h/^", BAD),
    "U2C-17": from_uri("coap://h/%C3%A9", "8320816168" + "8162c3a9")
    + from_uri("coap://h/e%CC%81", "8320816168" + "816365cc81"),
    # 5. Resolution
    "RES-1": [("resolve --base 8100", "80", "usage")],
    "RES-3": resolved('[true, ["a"]]', '[-2, ["foo", 4711], ["a"]]')
    + resolved('[true, ["x"]]', '["a", null, ["x"]]', "836161f5816162"),
    "RES-4": resolved('[2, ["a"]]', '[-2, ["foo", 4711], ["a"]]')
    + resolved('[9, ["a"]]', '[-2, ["foo", 4711], ["a"]]'),
    "RES-5": resolved("[1]", '[-2, ["foo", 4711], ["pa"]]'),
    "RES-6": resolved('[0, ["p"]]', '[-2, ["foo", 4711], ["pa", "th", "p"]]')
    + resolved("[0, []]", '[-2, ["foo", 4711], ["pa", "th"]]'),
    "RES-7": resolved('[0, null, ["a"]]', '[-2, ["foo", 4711], ["pa", "th"], ["a"]]')
    + resolved('[0, null, ["a"], "b"]', '[-2, ["foo", 4711], ["pa", "th"], ["a"], "b"]'),
    "RES-8": resolved("[0, null, []]", '[-2, ["foo", 4711], ["pa", "th"]]'),
    "RES-9": resolved('[0, null, null, "a"]', '[-2, ["foo", 4711], ["pa", "th"], ["query"], "a"]'),
    "RES-10": resolved("80", BASE) + resolved("8100", BASE),
    "RES-11": resolved('[null, ["a", 25186], ["c"]]', '[-2, ["a", 25186], ["c"]]')
    + resolved('[null, ["a"], null, ["b"]]', '[-2, ["a"], [], ["b"]]'),
    "RES-12": resolved('["a", null, ["b"]]', '["a", null, ["b"]]'),
    "RES-13": resolved("[1]", BAD, "836161f5816162")
    + resolved('[true, ["", "c"]]', BAD, "836161f6816162"),
    "RES-14": resolved('[-1, ["h"], null, ["q"]]', "842081616880816171"),
    # 6. Comparison
    "CMP-1": compared("8320816168816170", "833800816168816170", "equal"),
    "CMP-2": compared('[-1, ["h", 5683]]', '[-1, ["h"]]', "different")
    + compared('[-1, ["h"], [""]]', '[-1, ["h"]]', "different"),
    "CMP-3": compared('["coap", ["h"]]', '[-1, ["h"]]', "different"),
    "CMP-4": compared('[-1, ["h"], [], [], "f"]', '[-1, ["h"]]', "equal")
    + compared('[-1, ["h"], [], [], "f"]', '[-1, ["h"]]', "different", " --fragment"),
    "CMP-8": compared('[-1, ["h"], [], ["a", "b"]]', '[-1, ["h"], [], ["b", "a"]]', "different")
    + compared('[-1, ["h"], ["a"]]', '[-1, ["h"], ["A"]]', "different"),
    "CMP-9": compared('[-1, ["h"]]', '[-2, ["h"]]', "different"),
    "CMP-10": compared("83208161688162c3a9", "8320816168816365cc81", "different"),
    "CMP-11": from_uri("coap://EXAMPLE.org:5683/", '[-1, ["example", "org"], [""]]')
    + [("normalize", '[-1, ["EXAMPLE.org", 5683]]', '[-1, ["example", "org"]]')],
    # 7. Percent-encoded text
    "PET-1": check("full", "[-1, [\"h\"], [[\"a\", ':', \"b\"]]]", "[-1, [\"h\"], [[':']]]",
                   "[-1, [\"h\"], [[':', \"b\"]]]")
    + bad('[-1, ["h"], [["a"]]]', '[-1, ["h"], [["a", "b"]]]', '[-1, ["h"], [[]]]',
          "[-1, [\"h\"], [[h'', \"b\"]]]", "[-1, [\"h\"], [[':', ':']]]"),
    "PET-2": check("full", "[-4, [false, [\"c+\", h'2b'], \"example\", \"com\"]]")
    + bad("[[\"a\", h'ff'], [\"h\"]]", f"[-1, [{IP6}, [\"a\", h'ff']]]"),
    "PET-3": bad("[-6, true, [[\"web:alice:\", '7:', \"1-balun\"]]]",
                 "[-6, true, [[\"web:alice:7\", ':1', \"-balun\"]]]",
                 "[-6, true, [[\"x\", h'c3a9']]]"),
    "PET-4": bad("[-4, [[\"a\", h'2e', \"b\"]]]"),
    "PET-5": bad("[-4, [\"h\"], [[h'2e2e']]]"),
    "PET-7": options("[-1, [\"h\"], [[\"a\", ':', \"b\"]]]", BAD),
    "PET-8": uri("[-3, [\"h\"], [[\"a\", h'3b', \"b\"]]]", "http://h/a%3Bb"),
    "PET-9": both("[-6, true, [[\"web:alice:7\", ':', \"1-balun\"]]]",
                  "did:web:alice:7%3A1-balun"),
    # 8. Stand-ins
    "STI-1": bad("822081d54168"),
    "STI-2": bad("8220f7", "8220e0", "8220f820"),
    "STI-3": bad("d8638220816168") + [("diag", "d8638220816168", '99([-1, ["h"]])')],
    # 9. CRI to options
    "C2O-1": options('[null, ["h"]]', BAD),
    "C2O-2": options('[-3, ["h"]]', BAD) + options('[-26, ["h"]]', coap((3, "h"), scheme="coaps+ws")),
    "C2O-3": options('["coap", ["h"]]', BAD),
    "C2O-4": options('[-1, ["h"], [], [], ""]', BAD),
    "C2O-5": options("[-1, [\"h\"], [], [[h'ff']]]", BAD) + options("[-1, [[\"a\", h'ff']]]", BAD),
    "C2O-6": options('[-1, ["example", "net"], ["x"]]', coap((3, "example.net"), (11, "x"))),
    "C2O-7": options("[-1, [h'c0000201'], [\"x\"]]", coap((11, "x")), "192.0.2.1:5683"),
    "C2O-8": options("[-1, [h'20010db8000000000000000000000001']]", coap((3, "[2001:db8::1]")),
                     "192.0.2.9:5683"),
    "C2O-9": options('[-1, ["h", 61616]]', coap((3, "h")), "192.0.2.1:61616")
    + options('[-1, ["h", 61616]]', coap((3, "h"), (7, 61616)), "192.0.2.1:5683"),
    "C2O-10": options('[-1, ["h", 80]]', coap((3, "h"), (7, 80)))
    + options('[-1, ["h", 0]]', coap((3, "h"), (7, 0))),
    "C2O-11": options('[-1, ["h"], [""]]', coap((3, "h")))
    + options('[-1, ["h"], ["", ""]]', coap((3, "h"), (11, ""), (11, "")))
    + options('[-1, ["h"], ["a", ""]]', coap((3, "h"), (11, "a"), (11, ""))),
    "C2O-12": options('[-1, ["h"], [], [""]]', coap((3, "h"), (15, ""))),
    "C2O-13": options('[-1, ["h"], ["3/4"], ["a&%"]]', coap((3, "h"), (11, "3/4"), (15, "a&%"))),
    "C2O-14": options('[-1, ["h"], ["' + "x" * 256 + '"]]', BAD)
    + options('[-1, ["h"], ["' + "x" * 255 + '"]]', coap((3, "h"), (11, "x" * 255)))
    + options('[-1, ["' + "x" * 128 + '", "' + "x" * 127 + '"]]', BAD),
    "C2O-15": options('[-1, [false, "u", "h"]]', BAD) + options("[-1]", BAD)
    + options('[-1, true, ["x"]]', BAD) + options('[-1, [""]]', BAD),
    "C2O-16": options('[-1, ["a.b"]]', BAD) + options('[-1, ["h"], [".."]]', BAD),
    "C2O-17": options(f'[-1, [{IP6}, "lo"]]', BAD, "[fe80::1]:5683"),
    "C2O-18": options('[-1, ["a:b"]]', coap((3, "a:b"))),
    # 10. Options to CRI
    "O2C-1": composed(coap((3, "h"), scheme="coaps+tcp"), '[-8, ["h"]]')
    + composed(coap((3, "h"), scheme="http"), BAD),
    "O2C-2": composed(coap((3, "example.net")), '[-1, ["example", "net"]]')
    + composed(coap((3, "[2001:db8::1]")), "[-1, [h'20010db8000000000000000000000001']]")
    + composed(coap((3, "[::1")), BAD) + composed(coap((3, "a b")), BAD),
    "O2C-3": composed(coap((3, "a%2eb")), BAD),
    "O2C-4": composed(coap((3, "H.Example")), '[-1, ["h", "example"]]'),
    "O2C-5": composed(coap(), "[-1, [h'c0000209']]", "192.0.2.9:5683"),
    "O2C-7": composed(coap((3, "h"), (7, 5683)), '[-1, ["h"]]', "192.0.2.9:80")
    + composed(coap((3, "h")), '[-1, ["h", 80]]', "192.0.2.9:80"),
    "O2C-8": composed(coap(), "[-1, [h'c0000209']]", "192.0.2.9:5683")
    + composed(coap((11, "a"), (15, "q"), (11, "b")), "[-1, [h'c0000209'], [\"a\", \"b\"], [\"q\"]]",
               "192.0.2.9:5683"),
    "O2C-9": composed(coap((3, "h"), (11, "")), '[-1, ["h"], [""]]')
    + options('[-1, ["h"], [""]]', coap((3, "h"))),
    "O2C-10": composed(coap((3, "h"), (11, "..")), BAD),
    # 13. Schemes
    "SCH-1": [("schemes", number, f"{number} {name} {port}") for number, name, port in (
        ("0", "coap", "5683"), ("1", "coaps", "5684"), ("2", "http", "80"), ("3", "https", "443"),
        ("4", "urn", "-"), ("5", "did", "-"), ("6", "coap+tcp", "5683"), ("7", "coaps+tcp", "5684"),
        ("24", "coap+ws", "80"), ("25", "coaps+ws", "443"))],
    "SCH-3": [("schemes", "1946", "1946 data -")],
    "SCH-4": uri('[-5478, true, ["x"]]', "machineprovisioningprogressreporter:x")
    + uri('[-7875, ["h"]]', "shttp://h"),
}
