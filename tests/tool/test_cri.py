#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The cri tool: outputs, errors, batches, exit statuses."""
import json
import os
import random
import subprocess
import tempfile
import unittest

TOOL = os.environ["CRI_TOOL"]
BASE = "85218263666f6f19126782627061627468816571756572796466726167"
TIMEOUT_S = 120


def run(*arguments, data=b""):
    done = subprocess.run([TOOL, *arguments], input=data, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Outputs(unittest.TestCase):
    """Each command, with exactly its output."""

    def check_row(self, arguments, wanted, status=0):
        with self.subTest(arguments=arguments):
            got_status, output, errors = run(*arguments)
            self.assertEqual(output, wanted + "\n")
            self.assertEqual(got_status, status)
            self.assertEqual(errors, "")

    def test_each_command_gives_its_line(self):
        rows = [
            (["from-uri", "coap://198.51.100.1:61616/.well-known/core"],
             "83208244c633640119f0b0826b2e77656c6c2d6b6e6f776e64636f7265"),
            (["from-uri", "coap://h:5683/x"], "8320816168816178"),
            (["from-uri", ""], "80"),
            (["from-uri", "coap://h/e%CC%81"], "8320816168816365cc81"),
            (["from-uri", "--strict", "coap://h/%C3%A9"], "83208161688162c3a9"),
            (["from-uri", "--normalize", "coap://h/e%CC%81"], "83208161688162c3a9"),
            (["from-uri", "--normalize", "--strict", "coap://E%CC%81.Ex:5683/T%CC%88"],
             "83208262c38962657881" "6354cc88"),
            (["from-iri", "--normalize", "coap://\u00c9.Ex/e\u0301"],
             "83208262c389626578" "8162c3a9"),
            (["to-uri", "8220816168"], "coap://h"),
            (["to-uri", "80"], ""),
            (["from-iri", "coap://b\u00fccher/\u00e9"], "8320816762c3bc636865728162c3a9"),
            (["to-iri", "8320816762c3bc636865728162c3a9"], "coap://b\u00fccher/\u00e9"),
            (["to-uri", "8320816762c3bc636865728162c3a9"], "coap://b%C3%BCcher/%C3%A9"),
            (["check", "8120"], "full"),
            (["check", "80"], "relative"),
            (["check", "832081616880"], "full"),
            (["diag", "83208244c633640119f0b0826b2e77656c6c2d6b6e6f776e64636f7265"],
             "[-1, [h'c6336401', 61616], [\".well-known\", \"core\"]]"),
            (["diag", "d8638120"], "99([-1])"),
            (["from-diag", "[-1, [h'C6336401', 61616]]"], "82208244c633640119f0b0"),
            (["resolve", "--base", BASE, "8202816161"], "83218263666f6f191267816161"),
            (["resolve", "8101", f"--base={BASE}"], "83218263666f6f19126781627061"),
            (["resolve", "--uri", "--base", "http://a/b/c/d;p?q", "../g"], "http://a/b/g"),
            (["relate", "--base", BASE, "83218263666f6f191267826270616178"],
             "8201816178"),
            (["relate", "--uri", "--base", "http://a/b/c", "http://a/b/d"], "d"),
            # The shortest references in CRIs, [0, ["d"]] and [1], have no URI form.
            (["relate", "--uri", "--base", "http://a/b/c", "http://a/b/c/d"], "c/d"),
            (["relate", "--uri", "--base", "http://a/b/c/d", "http://a/b/c"], "../c"),
            (["relate", "--uri", "--base", "http://a/b#f", "http://a/b#f"], "#f"),
            (["relate", "--uri", "--base", "urn:a/b", "urn:c"], "urn:c"),
            (["compare", "8220816168", "980220816168"], "equal"),
            (["compare", "8220816168", "8520816168808060"], "equal"),
            (["compare", "--fragment", "8220816168", "8520816168808060"], "different"),
            (["compare", "--uri", "coap://H:5683/%7Ex", "coap://h/~x"], "equal"),
            (["compare", "--uri", "coap://h/x", "coap://h/y"], "different"),
            (["check", "0x8120"], "full"),
            (["check", " 83 2081\t6168 80\r\n"], "full"),
            (["check", "0X81 20"], "full"),
            (["get", "scheme", "8320816168816178"], "coap"),
            (["get", "host", "--uri", "coap://u@[2001:DB8::1]:61616/a/b?q&r=1#f"],
             "[2001:db8::1]"),
            (["get", "authority", "--uri", "coap://u@h:61616/a"], "u@h:61616"),
            (["get", "userinfo", "--uri", "coap://u@h:61616/a"], "u"),
            (["get", "port", "--uri", "coap://u@h:61616/a"], "61616"),
            (["get", "port", "--uri", "coap://u@h:5683/a"], ""),
            (["get", "path", "--uri", "coap://h/a%2fb/c?q&r=1#f"], "/a%2Fb/c"),
            (["get", "query", "--uri", "coap://h/a?q&r=1#f"], "q&r=1"),
            (["get", "fragment", "--uri", "coap://h/a?q#f?#"[:-1]], "f?"),
            (["get", "path", "--uri", "urn:a:b"], "a:b"),
            (["get", "scheme", "--uri", "../x:y"], ""),
            (["get", "path", "--uri", "../x:y"], "../x:y"),
            (["get", "port", "--json", "8320816168816178"], '{"result":null}'),
            (["get", "host", "--json", "8320816168816178"], '{"result":"h"}'),
            (["from-uri", "--json", "coap://h/x"], '{"result":"8320816168816178"}'),
            (["check", "--json", "8120"], '{"result":"full"}'),
            (["options", "--json", "8320816168816178"],
             '{"result":{"scheme":"coap","options":[[3,"h"],[11,"x"]]}}'),
            (["schemes", "--json", "coap"], '{"result":"0 coap 5683"}'),
            (["compare", "--json", "80", "80"], '{"result":"equal"}'),
            (["normalize", "82208163482e49"], "82208261686169"),
            (["options", "84208268686f73746e616d6519f0b0816161816171"],
             '{"scheme":"coap","options":[[3,"hostname"],[7,61616],[11,"a"],[15,"q"]]}'),
            (["options", "--to", "192.0.2.1:5683", "83208144c0000201816178"],
             '{"scheme":"coap","options":[[11,"x"]]}'),
            (["options", "--to", "[2001:db8::1]:5684",
              "8220815020010db8000000000000000000000001"],
             '{"scheme":"coap","options":[[7,5683]]}'),
            (["options", "8320816168816422090a5c"],
             '{"scheme":"coap","options":[[3,"h"],[11,"\\"\\t\\n\\\\"]]}'),
            (["from-options", "--to", "192.0.2.1:61616",
              '{"scheme":"coap","options":[[11,"a"],[15,"q"]]}'],
             "84208244c000020119f0b0816161816171"),
            (["from-options", '{ "options" : [ [3,"\\u0068\\ud83d\\ude00"] , [7,0] ],'
                              ' "scheme" : "coaps" }'],
             "8221826568f09f988000"),
            (["from-cori", "8a0164636f61700344c633640104191633066b2e77656c6c2d6b6e6f776e"
                           "0664636f7265"],
             "83208144c6336401826b2e77656c6c2d6b6e6f776e64636f7265"),
            (["to-cori", "83208144c6336401826b2e77656c6c2d6b6e6f776e64636f7265"],
             "8a0164636f61700344c633640104191633066b2e77656c6c2d6b6e6f776e0664636f7265"),
            (["schemes", "coap+ws"], "24 coap+ws 80"),
            (["schemes", "4"], "4 urn -"),
            (["formats", "50"], "50 application/json"),
            (["formats", "11050"], "11050 application/json deflate"),
            (["formats", "Text/Plain"], "0 text/plain;charset=utf-8"),
            (["formats", "--json", "60"], '{"result":"60 application/cbor"}'),
            (["to-http", "8320816168816178"], "/hc/coap://h/x"),
            (["to-http", "--uri", "coap://[2001:DB8::7]/x?q"], "/hc/coap://%5B2001:db8::7%5D/x?q"),
            (["to-http", "--uri", "--prefix", "https://gw.example/c/", "coaps://h/x"],
             "https://gw.example/c/coaps://h/x"),
            (["to-http", "--uri", "--template", "{+s}/{+hp}{+p}{+qq}", "coap://h:99/a%2Fb?q"],
             "/hc/coap/h:99/a%2Fb?q"),
            (["to-http", "--template", "{cri}", "8320816168816178"], "/hc/gyCBYWiBYXg"),
            (["to-http", "--json", "8320816168816178"], '{"result":"/hc/coap://h/x"}'),
            (["from-http", "/hc/coap://h/x"], "8320816168816178"),
            (["from-http", "--uri", "http://127.0.0.1:8080/hc/coap://%5B2001:DB8::7%5D/x"],
             "coap://[2001:db8::7]/x"),
            (["from-http", "--uri", "--prefix", "https://gw.example/c/",
              "https://gw.example/c/coaps://h/x"], "coaps://h/x"),
            (["from-http", "--uri", "--template", "?u={+tu}", "/hc/?u=coap://h/a?b"],
             "coap://h/a?b"),
            (["from-http", "--template", "{cri}", "/hc/gyCBYWiBYXg"], "8320816168816178"),
            (["from-http", "--template", "{cri}", "--uri", "/hc/gyCBYWiBYXg"], "coap://h/x"),
        ]
        for arguments, wanted in rows:
            self.check_row(arguments, wanted)

    def test_errors_say_where_and_why(self):
        rows = [
            (["check", ""], "error: no hexadecimal digits"),
            (["check", "822"], "error: character 3: an odd number of hexadecimal digits"),
            (["check", "82x0"], "error: character 2: not a hexadecimal digit"),
            (["check", "82208163612e62"], "error: byte 5: host label contains a dot"),
            (["check", "--strict", "832081616880"], "error: byte 5: trailing empty array"),
            (["check", "0x"], "error: no hexadecimal digits"),
            (["check", " "], "error: no hexadecimal digits"),
            (["check", "8 2 2"], "error: character 5: an odd number of hexadecimal digits"),
            (["compare", "--uri", "coap://h", "coap://%"],
             'error: second URI: byte 7: "%" without two hexadecimal digits'),
            (["from-uri", "--strict", "coap://h/e%CC%81"],
             "error: text is not in Normalization Form C"),
            (["from-iri", "--strict", "coap://h/e\u0301"],
             "error: text is not in Normalization Form C"),
            (["diag", "8220"], "error: byte 0: more items announced than there are bytes"),
            (["from-diag", "[1, nil]"], "error: byte 4: not an item"),
            (["from-options", '{"scheme":"coap","options":[[7,"80"]]}'],
             "error: the value of Uri-Port (7) is a number"),
            (["from-options", '{"scheme":"http","options":[]}'], "error: not a scheme of CoAP"),
            (["from-options", '{"scheme":"COAP","options":[]}'], "error: not a scheme of CoAP"),
            (["from-options", '{"scheme":"coap","options":[[3,"h"]]} '
                              '{'], "error: byte 38: something follows the object"),
            (["from-options", '{"scheme":"coap"}'],
             "error: \"scheme\" and \"options\" are both needed"),
            (["to-cori", "82018100"], None),
            (["schemes", "nope"], "error: no scheme of this name or number"),
            (["formats", "nope"], "error: no Content-Format of this media type or number"),
            (["formats", "65536"], "error: no Content-Format of this media type or number"),
            (["to-http", "--uri", "x"], "error: a relative reference"),
            (["to-http", "--uri", "coap://h/x#f"], "error: a fragment is not sent to a server"),
            (["to-http", "--uri", "coap://h/" + "x" * 2000], "error: longer than a proxy takes"),
            (["from-http", "/hc/h/x"], "error: the target URI has no scheme"),
            (["from-http", "/other/coap://h"], "error: nothing is here: see /.well-known/core"),
            (["from-http", "coap://h/x"], "error: neither a path nor a URI of http or https"),
            (["from-http", "http://h"], "error: nothing is here: see /.well-known/core"),
            (["from-http", "/.well-known/core"], "error: a resource of the proxy itself"),
            (["from-http", "/hc/coap://h/%"], None),
            (["from-http", "--template", "{cri}", "/hc/gy"], None),
            (["compare", "8220", "8220816168"], None),
        ]
        for arguments, wanted in rows:
            with self.subTest(arguments=arguments):
                status, output, _ = run(*arguments)
                self.assertEqual(status, 1)
                self.assertRegex(output, r"\Aerror: .+\n\Z")
                if wanted is not None:
                    self.assertEqual(output, wanted + "\n")

    def test_several_arguments_give_several_lines(self):
        self.assertEqual(run("check", "8120", "zz", "80")[:2],
                         (1, "full\nerror: character 0: not a hexadecimal digit\nrelative\n"))
        self.assertEqual(run("compare", "80", "80", "8120", "80")[:2], (0, "equal\ndifferent\n"))

    def test_scheme_table_is_whole(self):
        status, output, _ = run("schemes")
        rows = [line.split(" ") for line in output.splitlines()]
        self.assertEqual(status, 0)
        self.assertGreater(len(rows), 400)
        self.assertEqual(rows[0], ["0", "coap", "5683"])
        self.assertEqual([int(row[0]) for row in rows], sorted({int(row[0]) for row in rows}))

    def test_mappings_go_both_ways(self):
        """RFC 8075 section 5: what one command writes the other reads."""
        targets = ["coap://h/x", "coaps+tcp://[2001:db8::1]:99/a%2Fb/?q=%26&r", "coap://192.0.2.1",
                   "coap://b%C3%BCcher/%C3%A9"]
        for template in ("{+tu}", "?to={+tu}", "{+s}/{+hp}{+p}{+qq}",
                         "?s={+s}&hp={+hp}&p={+p}&q={+q}", "{cri}"):
            given = ["--uri", "--template", template]
            status, mapped, _ = run("to-http", *given, *targets)
            self.assertEqual(status, 0)
            self.assertEqual(run("from-http", *given, *mapped.splitlines())[:2],
                             (0, "".join(target + "\n" for target in targets)))

    def test_table_of_formats_is_whole(self):
        status, output, _ = run("formats")
        numbers = [int(line.split(" ")[0]) for line in output.splitlines()]
        self.assertEqual(status, 0)
        self.assertGreater(len(numbers), 75)
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_scheme_table_as_json(self):
        _, text, _ = run("schemes")
        status, output, _ = run("schemes", "--json")
        self.assertEqual(status, 0)
        self.assertEqual([json.loads(line) for line in output.splitlines()],
                         [{"result": line} for line in text.splitlines()])

    def test_every_command_takes_json(self):
        for line in run("--help")[1].splitlines():
            if line.startswith("  cri ") and not line.startswith("  cri COMMAND") and \
                    line.split()[1] != "--version":
                self.assertIn(" [--json] ", line)


class Usage(unittest.TestCase):
    """A wrong command line: status 2, the reason on standard error, no output."""

    def test_wrong_command_lines(self):
        rows = [
            [], ["nope"], ["check", "--nope", "80"], ["get"],
            ["get", "nope", "80"], ["check", "--json", "--binary", "80"], ["check", "-x", "80"],
            ["check", "--base", BASE, "80"], ["check", "--strict=yes", "80"],
            ["to-uri", "--fragment", "80"],
            ["resolve", "80"], ["resolve", "--base"], ["resolve", "--base", "", "80"],
            ["resolve", "--base", "zz", "80"], ["resolve", "--base", "8220", "80"],
            ["resolve", "--base", "80", "80"], ["relate", "--base", "8220", "80"],
            ["resolve", "--uri", "--base", "/relative", "x"],
            ["resolve", "--uri", "--base", "no uri", "x"],
            ["options", "--to", "", "80"], ["options", "--to", "192.0.2.1", "80"],
            ["options", "--to", "192.0.2.1:65536", "80"], ["options", "--to", "192.0.2:1", "80"],
            ["options", "--to", "2001:db8::1:5683", "80"], ["options", "--to", "[::1]", "80"],
            ["options", "--to", "[192.0.2.1]:1", "80"], ["options", "--to", "[::1]5683", "80"],
            ["options", "--to", "[::1%]:5683", "80"], ["options", "--to", "h:5683", "80"],
            ["options", "--to", "192.0.2.1:", "80"], ["options", "--to", "192.0.2.1:+1", "80"],
            ["compare", "80"], ["aif"], ["aif", "--binary", "/dev/null"],
            ["schemes", "--binary"], ["schemes", "--binary", "coap"], ["formats", "--binary"],
            ["to-http", "--prefix", "hc", "80"], ["to-http", "--prefix", "/hc", "80"],
            ["to-http", "--prefix", "http://h/?/", "80"], ["to-uri", "--prefix", "/hc/", "80"],
            ["from-http", "--template", "{x}", "/hc/"], ["from-http", "--template", "{+s}", "/"],
        ]
        for arguments in rows:
            with self.subTest(arguments=arguments):
                status, output, errors = run(*arguments)
                self.assertEqual((status, output), (2, ""))
                self.assertRegex(errors, r"\Acri")

    def test_help_lists_every_command(self):
        status, output, _ = run("--help")
        self.assertEqual(status, 0)
        for command in ("from-uri", "to-uri", "from-iri", "to-iri", "check", "diag", "from-diag",
                        "resolve", "relate", "compare", "normalize", "options", "from-options",
                        "from-cori", "to-cori", "to-http", "from-http", "formats", "schemes",
                        "aif"):
            self.assertIn(f"  cri {command} ", output)
            status, text, _ = run(command, "--help")
            self.assertEqual(status, 0)
            self.assertIn(f"cri {command}", text)


class Batches(unittest.TestCase):
    """One line in, one line out, in order, whatever comes."""

    def test_bad_inputs_never_stop_a_batch(self):
        data = b"coap://h\n\ncoap://h/a b\n\xff\xfe\n\x00\nfoo"
        status, output, _ = run("from-uri", data=data)
        lines = output.split("\n")
        self.assertEqual(status, 1)
        self.assertEqual(len(lines), 7)
        self.assertEqual(lines[:2], ["8220816168", "80"])
        for line in lines[2:5]:
            self.assertRegex(line, r"\Aerror: byte ")
        self.assertEqual(lines[5:], ["82018163666f6f", ""])

    def test_no_input_is_no_output(self):
        self.assertEqual(run("check", data=b""), (0, "", ""))
        self.assertEqual(run("check", "-", data=b"80\n"), (0, "relative\n", ""))

    def test_an_empty_line_is_an_empty_input(self):
        self.assertEqual(run("from-uri", data=b"\n")[:2], (0, "80\n"))
        self.assertEqual(run("to-uri", data=b"\n")[:2],
                         (1, "error: no hexadecimal digits\n"))

    def test_lines_of_any_length(self):
        long = "coap://h/" + "a" * 3_000_000
        data = f"coap://h\n{long}\ncoap://h\n".encode()
        status, output, _ = run("from-uri", data=data)
        lines = output.splitlines()
        self.assertEqual((status, lines[0], lines[2]), (0, "8220816168", "8220816168"))
        back = run("to-uri", data=(lines[1] + "\n").encode())[1]
        self.assertEqual(back, long + "\n")

    def test_compare_takes_two_fields(self):
        data = b"8220816168 8220816168\n8220816168\t80\n8220816168\n\n80 80 80\n"
        status, output, _ = run("compare", data=data)
        lines = output.splitlines()
        self.assertEqual((status, lines[:2]), (1, ["equal", "different"]))
        self.assertEqual(lines[2:], ["error: two fields were expected"] * 3)

    def test_an_answer_comes_before_the_next_question(self):
        with subprocess.Popen([TOOL, "to-uri"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              bufsize=0) as process:
            for _ in range(50):
                process.stdin.write(b"8220816168\n")
                self.assertEqual(process.stdout.readline(), b"coap://h\n")
            # Half a line is no question yet; the rest makes it one.
            process.stdin.write(b"82208")
            process.stdin.write(b"16168\nzz\n")
            self.assertEqual(process.stdout.readline(), b"coap://h\n")
            self.assertRegex(process.stdout.readline(), rb"\Aerror: ")
            process.stdin.close()
            self.assertEqual(process.wait(TIMEOUT_S), 1)

    def test_order_is_kept_in_a_large_batch(self):
        ports = [random.Random(7).randrange(65536) for _ in range(50_000)]
        data = "".join(f"x://h:{port}\n" for port in ports).encode()
        encoded = run("from-uri", data=data)[1]
        status, output, _ = run("to-uri", data=encoded.encode())
        self.assertEqual(status, 0)
        self.assertEqual(output, data.decode())

    def test_a_full_disk_is_not_silent(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([TOOL, "check", "80"], stdout=full, stderr=subprocess.PIPE,
                                  timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard output", done.stderr)

    def test_hostile_batch_is_linear(self):
        # Anything worse than linear would take longer than the time-out of one run.
        line = b"81" * 200_000
        status, output, _ = run("check", data=(line + b"\n") * 5)
        self.assertEqual((status, output.count("error: ")), (1, 5))
        run("diag", data=line + b"\n")
        run("from-diag", data=b"[" * 400_000 + b"\n")


class Bytes(unittest.TestCase):
    """--binary, and lines that end as Windows has them."""

    def run_bytes(self, *arguments, data=b""):
        done = subprocess.run([TOOL, *arguments], input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_binary_goes_in_and_out(self):
        cri = bytes.fromhex("8320816168816a0a0d20000a0a0a0a0a0a")
        self.assertEqual(self.run_bytes("from-uri", "--binary", "coap://h/x"),
                         (0, bytes.fromhex("8320816168816178"), b""))
        self.assertEqual(self.run_bytes("check", "--binary", data=cri), (0, b"full\n", b""))
        self.assertEqual(self.run_bytes("normalize", "--binary", data=cri), (0, cri, b""))
        self.assertEqual(self.run_bytes("to-uri", "--binary", data=b"\x82\x20\x81\x61h"),
                         (0, b"coap://h\n", b""))
        self.assertEqual(self.run_bytes("from-uri", "--binary", data=b"coap://h\n//e\n"),
                         (0, bytes.fromhex("8220816168" "82f6816165"), b""))

    def test_two_binary_inputs_follow_each_other(self):
        cri = bytes.fromhex("8320816168816a0a0d20000a0a0a0a0a0a")
        fragment = bytes.fromhex("8520816168808061") + b"x"
        rows = [
            (cri + cri, [], (0, b"equal\n")),
            (cri + fragment, [], (0, b"different\n")),
            (bytes.fromhex("8220816168") + fragment, [], (0, b"equal\n")),
            (bytes.fromhex("8220816168") + fragment, ["--fragment"], (0, b"different\n")),
            (cri, [], (1, b"")), (b"", [], (1, b"")), (cri + cri + b"\x80", [], (1, b"")),
            (cri + b"\xff", [], (1, b"")), (b"\x9f" + cri, [], (1, b"")),
        ]
        for data, options, wanted in rows:
            with self.subTest(data=data.hex(), options=options):
                self.assertEqual(self.run_bytes("compare", "--binary", *options, data=data)[:2],
                                 wanted)
        self.assertEqual(self.run_bytes("compare", "--binary", "80", "80")[:2], (0, b"equal\n"))

    def test_errors_stay_out_of_binary(self):
        self.assertEqual(self.run_bytes("normalize", "--binary", data=b"")[:2], (1, b""))
        status, output, errors = self.run_bytes("normalize", "--binary", data=b"\xff")
        self.assertEqual((status, output), (1, b""))
        self.assertTrue(errors.startswith(b"error: byte 0: "))

    def test_what_href_12_meant(self):
        rows = [
            ("8120", 0, "full\n"),
            ("82208163612e62", 1, "error: byte 5: host label contains a dot; "
                                  "href-12: a dot that is percent-encoded in the URI\n"),
            ("83208161688182617841" "61", 1,
             "error: byte 10: percent-encoded bytes that belong in text; "
             "href-12: octets that are percent-encoded in the URI\n"),
            ("82208250fe8000000000000000000000000000016365cc81", 0,
             "full; href-12: the zone-id is in the URI, behind %25\n"),
            ("8400f681617" "16166", 0, "relative; href-12: resolving it drops the fragment\n"),
            ("zz", 1, "error: character 0: not a hexadecimal digit\n"),
        ]
        for hexadecimal, status, output in rows:
            with self.subTest(hexadecimal=hexadecimal):
                self.assertEqual(run("check", "--href-12", hexadecimal)[:2], (status, output))

    def test_errors_are_json_too(self):
        self.assertEqual(run("check", "--json", "zz", "80")[:2],
                         (1, '{"error":"character 0: not a hexadecimal digit"}\n'
                             '{"result":"relative"}\n'))

    def test_lines_may_end_in_crlf(self):
        self.assertEqual(run("from-uri", data=b"coap://h/x\r\n\r\n")[:2],
                         (0, "8320816168816178\n80\n"))
        self.assertEqual(run("check", data=b"8120\r\n80")[:2], (0, "full\nrelative\n"))


class Json(unittest.TestCase):
    def test_options_go_both_ways(self):
        seed = random.SystemRandom().randrange(2**32)
        print("seed", seed)
        source = random.Random(seed)
        alphabet = "ab.\u00e9\u65e5\U0001f600\"\\/\n\x7f&="
        requests = []
        for _ in range(500):
            text = ["".join(source.choices(alphabet, k=source.randrange(1, 6)))
                    for _ in range(4)]
            text = [item for item in text if item not in (".", "..")]
            requests.append({"scheme": source.choice(["coap", "coaps", "coap+tcp"]),
                             "options": [[3, "h.example"], [7, source.randrange(65536)],
                                         *([11, item] for item in text[:2]),
                                         *([15, item] for item in text[2:])]})
        data = "".join(json.dumps(r, ensure_ascii=source.random() < 0.5) + "\n" for r in requests)
        status, encoded, _ = run("from-options", "--to", "192.0.2.1:1", data=data.encode())
        self.assertEqual(status, 0)
        status, output, _ = run("options", "--to", "192.0.2.1:1", data=encoded.encode())
        self.assertEqual(status, 0)
        for request, line in zip(requests, output.splitlines()):
            wanted = [option for option in request["options"] if option != [7, 1]]
            self.assertEqual(json.loads(line),
                             {"scheme": request["scheme"], "options": wanted})

    def test_what_is_not_the_shape_is_refused(self):
        good = '{"scheme":"coap","options":[[3,"h"]]}'
        self.assertEqual(run("from-options", good)[:2], (0, "8220816168\n"))
        rows = ['{"":[]}', "", "[]", "{}", good[:-1], good + "x", good.replace("]]", "],]"),
                good.replace('"h"', "h"), good.replace('"h"', "'h'"), good.replace('"h"', "null"),
                good.replace('"h"', '"\\x"'), good.replace('"h"', '"\\ud800"'),
                good.replace('"h"', '"\\udc00"'), good.replace('"h"', '"a\tb"'),
                good.replace("3,", "03,"), good.replace("3,", "-3,"), good.replace("3,", "3.0,"),
                good.replace("3,", "65536,"), good.replace("[3,", "[99999999999999999999,"),
                good.replace("{", '{"scheme":"coap",'), good.replace("{", '{"options":[],'),
                good.replace("scheme", "schema"), good.replace("}", ',"x":1}'),
                good.replace('[3,"h"]', "[3]"), good.replace('[3,"h"]', '[3,"h",1]')]
        for row in rows:
            with self.subTest(row=row):
                status, output, _ = run("from-options", row)
                self.assertEqual(status, 1)
                self.assertRegex(output, r"\Aerror: ")

    def test_surrogates_come_in_pairs(self):
        request = '{"scheme":"coap","options":[[3,"%s"]]}'
        for row, at in (("\\ud800", 38), ("\\ud800a", 38), ("\\udc00", 38), ("\\udfff", 38),
                        ("\\ud800\\udbff", 44), ("\\ud800\\ue000", 44)):
            with self.subTest(row=row):
                self.assertEqual(run("from-options", request % row)[:2],
                                 (1, f"error: byte {at}: a surrogate without its other half\n"))
        for row, encoded in (("\\ud800\\udc00", "64f0908080"), ("\\udbff\\udfff", "64f48fbfbf"),
                             ("\\ud7ff\\ue000", "66ed9fbfee8080")):
            with self.subTest(row=row):
                self.assertEqual(run("from-options", request % row)[:2],
                                 (0, f"822081{encoded}\n"))

    def test_every_cut_of_a_request_is_refused(self):
        good = '{"scheme":"coap","options":[[3,"\\u00e9\\ud83d\\ude00"],[7,80]]}'
        data = "".join(good[:cut] + "\n" for cut in range(len(good)))
        output = run("from-options", data=data.encode())[1]
        self.assertEqual(output.count("error: "), len(good))


class Aif(unittest.TestCase):
    def check_document(self, document, wanted, status=0, arguments=()):
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes.fromhex(document))
            file.flush()
            got, output, _ = run("aif", *arguments, file.name)
        self.assertEqual((got, output), (status, wanted))

    def test_grants_are_readable(self):
        rows = [
            ("80", ""),
            ("8182818261736474656d7001", "GET /s/temp\n"),
            ("8182828161618162623d05", "GET,PUT /a?b=\n"),
            ("8182818001", "GET /\n"),
            ("818281816001", "GET /\n"),
            ("81828182606162187f",
             "GET,POST,PUT,DELETE,FETCH,PATCH,iPATCH //b\n"),
            ("8182818161611b0000000100000001", "GET,Dynamic-GET /a\n"),
            ("8182818161611b0000010000000000", "bit-40 /a\n"),
            ("81828181616100", "nothing /a\n"),
            ("9f9f8181616101ffff", "GET /a\n"),
        ]
        for document, wanted in rows:
            with self.subTest(document=document):
                self.check_document(document, wanted)

    def test_a_faulty_entry_is_reported_and_the_rest_stands(self):
        self.check_document("83828181616101828181622e2e01828181616202",
                            "GET /a\nerror: byte 10: dot-segment in the path\nPOST /b\n", 1)

    def test_strict_refuses_what_is_left_out_by_rule(self):
        document = "8182828161618001"
        self.check_document(document, "GET /a\n")
        self.check_document(document, "error: byte 6: trailing empty array\n", 1, ["--strict"])

    def test_json(self):
        self.check_document("83828181616101828181622e2e01828181616202",
                            '{"result":"GET /a"}\n{"error":"byte 10: dot-segment in the path"}\n'
                            '{"result":"POST /b"}\n', 1, ["--json"])
        self.check_document("00", '{"error":"byte 0: not an array"}\n', 1, ["--json"])

    def test_not_a_document(self):
        for document in ("", "00", "a0", "81", "8000", "9f", "81" * 40 + "00"):
            with self.subTest(document=document), tempfile.NamedTemporaryFile() as file:
                file.write(bytes.fromhex(document))
                file.flush()
                status, output, _ = run("aif", file.name)
                self.assertEqual(status, 1)
                self.assertRegex(output, r"\Aerror: byte ")

    def test_a_missing_file_is_an_error(self):
        status, output, errors = run("aif", "/nonexistent/aif.cbor")
        self.assertEqual((status, output), (1, ""))
        self.assertIn("/nonexistent/aif.cbor", errors)


if __name__ == "__main__":
    unittest.main()
