#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Which programs understand each other: other people's CoAP in front of the proxy and behind it.

Each peer that is to be had here is a client, an origin server and, where it is one, a parent
proxy, over each transport that it has: GET in the four forms, PUT, Observe, block-wise transfer
both ways, and an error. Prints a table; README.md beside this file says which peers, and how to
name others.

    matrix.py [--write] [--only WORD]

--write puts the table into docs/INTEROP.md. The exit status is 1 where a check does not pass,
twice in a row, that is not known to be the peer's fault (KNOWN), or where there is no peer.
"""

import argparse
import datetime
import itertools
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "system"))

import californium  # noqa: E402
import peers  # noqa: E402
from coap_wire import METHODS  # noqa: E402
from peers import IDENTITY, KEY, NOTIFICATIONS, Answer, CannotSpeak, Missing  # noqa: E402
from processes import Proxy, program  # noqa: E402
from stream_wire import CSM, Stream  # noqa: E402
from target import FORMS, Target  # noqa: E402

OBSERVE = 6
BODY_BYTES = 4000
MESSAGE_MAX = 1 << 20  # what we take on a stream
CHECKS = (*FORMS, "PUT", "up", "down", "observe", "4.04")
TITLES = {"cri": "Proxy-Cri", "number": "Proxy-Scheme-Number", "uri": "Proxy-Uri",
          "scheme": "Proxy-Scheme", "up": "blocks up", "down": "blocks down"}

# The part about DTLS: what tests/interop/secure.py has printed.
SECURE = pathlib.Path(__file__).resolve().parent / "secure.md"
# The part about upstream.oscore: what tests/system/test_oscore.py has shown.
OSCORE = pathlib.Path(__file__).resolve().parent / "oscore.md"

# How a target is named to a parent (route.form): Proxy-Cri, and what it takes in its place where it
# refuses that, and what else, by the name of the peer and its version.
PARENT_FORMS = {"libcoap 4.3.5": ("proxy-cri", "proxy-uri")}

# What is known not to pass, by the name of the peer, with its version or without, and why.
KNOWN = {
    ("node-coap", "origin", "coap", "up"):
        "its server takes blocks of one upload under one token only, which RFC 7959 does not ask "
        "for; the proxy's have one each",
}
# Shown without the proxy, by a client that sends nothing else: 60 times of 60. Here it depends on
# whether upload and download meet in one worker, and so in one session with the parent.
LIBCOAP_PARENT = "after an upload in blocks, in the same session, its proxy (4.3.1 and 4.3.4) answers " \
                 "a request for block 1 with block 0 and another ETag"
KNOWN.update({(name, "parent", scheme, "down"): LIBCOAP_PARENT
              for name in ("libcoap (Debian)", "libcoap (Debian, OpenSSL)", "libcoap")
              for scheme in ("coap", "coaps")})

# Its log says "Option number 7 is not defined as repeatable - dropped". Its coap_proxy.c makes options of
# the target's URI and copies the request's beside them; at the second Uri-Port coap_add_optlist_pdu() ends.
LIBCOAP_SCHEME = "its proxy (4.3.5) makes of Proxy-Scheme and Uri-* a request that has the Uri-* twice, and " \
                 "ends it at the second Uri-Port: \"/\" of the origin server answers, or \"/time/time\" for " \
                 "\"/time\" without a port; so for coap-client without criproxyd; `form = proxy-uri` in the " \
                 "section `route` goes around it"
KNOWN.update({("libcoap 4.3.5", "parent", scheme, check): LIBCOAP_SCHEME
              for scheme in ("coap", "coap+tcp", "coaps", "coaps+tcp")
              for check in ("PUT", "up", "down", "observe", "4.04")})

# AddressSanitizer in its proxy, asked by coap-client: a read of freed memory. Its coap_proxy.c copies the
# body, and sends what it has copied from, which goes with the request.
LIBCOAP_FREED = "its proxy (4.3.5) sends the blocks of an upload from freed memory, so that others arrive; so " \
                "it does for coap-client without criproxyd (the body of \"blocks down\" comes by an upload, too)"
KNOWN.update({("libcoap 4.3.5", "parent, proxy-uri", scheme, check): LIBCOAP_FREED
              for scheme in ("coap", "coap+tcp", "coaps", "coaps+tcp") for check in ("up", "down")})

# What would not pass if the matrix did not go around it.
GONE_AROUND = [
    ("libcoap, client, Proxy-Scheme",
     "with `-P` and `-O 39` coap-client 4.3.5 sends the proxy's port as Uri-Port and no path (since its "
     "commit 8157d045), which names the proxy itself; here it gets each option by `-O`, and `-U`"),
    ("libcoap, client, OSCORE",
     "with `-P` coap-client (4.3.4 and 4.3.5) has Uri-Port twice in what it encrypts, and refuses that, "
     "but with `-U`"),
]

numbers = itertools.count(1)


# --- our side -----------------------------------------------------------------

class Ours:
    """The proxy's client where a peer is behind it; a stream carries bodies whole, so that the
    blocks are between the proxy and the peer."""

    def ask(self, scheme, port, target, form, method, payload=b"", observe=0):
        with Stream(("127.0.0.1", port)) as stream:
            stream.sock.settimeout(peers.PATIENCE_S)
            stream.send_message(CSM, options=[(2, MESSAGE_MAX.to_bytes(3, "big"))])
            stream.expect(CSM)
            options = target.options(form) + ([(OBSERVE, b"")] if observe else [])
            answer = stream.ask(METHODS[method], b"t", options, payload)
            payloads = [answer.payload]
            while observe and answer.values(OBSERVE) and len(payloads) < observe:
                payloads.append(stream.receive().payload)
            return Answer(answer.code_text, payloads)


def start_proxy(folder, *more):
    keys = os.path.join(folder, "keys")
    with open(keys, "w", encoding="ascii") as file:
        file.write("%s:%s\n" % (IDENTITY, KEY.encode().hex()))
    os.chmod(keys, 0o600)
    listen = [word for scheme in ("coap+tcp", "coap+ws", "coaps", "coaps+tcp")
              for word in ("--listen", scheme + "://127.0.0.1:0")]
    certificate = [os.path.join(folder, name) for name in ("certificate.pem", "key.pem")]
    if not os.path.exists(certificate[0]):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=proxy.example", "-out", certificate[0],
             "-keyout", certificate[1]], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        os.chmod(certificate[1], 0o600)
    return Proxy(*listen, "--set", "tls.psk-file=" + keys, "--set", "tls.certificate=" +
                 certificate[0], "--set", "tls.key=" + certificate[1],
                 "--set", "stream.require-alpn=no",  # libcoap's client does not send ALPN
                 "--set", "proxy.ack-delay=1500ms",  # libcoap 4.3.1 needs it (conftest.UNHURRIED)
                 "--set", "upstream.psk-identity=" + IDENTITY,
                 "--set", "upstream.psk-key=" + KEY.encode().hex(), *more, listen=("127.0.0.1",))


# --- checks -------------------------------------------------------------------

class Row:
    """One peer in one role over one transport: which client asks, through which port, for what."""

    def __init__(self, peer, role, scheme, asker, port, server, target_port, target_scheme):
        self.title = (peer.name, role, scheme)
        self.asker, self.scheme, self.port = asker, scheme, port
        self.server, self.target_port, self.target_scheme = server, target_port, target_scheme
        self.cells = {}

    def target(self, name):
        return Target("127.0.0.1", self.target_port, self.server.paths[name],
                      scheme=self.target_scheme)

    def ask(self, name, method="GET", form=None, **more):
        return self.asker.ask(self.scheme, self.port, self.target(name),
                              form or self.good_form(), method, **more)

    def good_form(self):
        """One that the peer can speak, for what is not about forms."""
        return next((form for form in FORMS if self.cells.get(form) == "yes"), FORMS[0])

    def check_form(self, form):
        answer = self.ask("index", form=form)
        assert self.server.index in answer.payload, "%s %r" % (answer.code, answer.payload[:40])

    def check_put(self, count=20):
        body = (b"%08d" % next(numbers) * (count // 8 + 1))[:count]
        answer = self.ask("store", "PUT", payload=body)
        assert answer.code[0] == "2", answer.code
        return body

    def check_up(self, count=BODY_BYTES):
        """The body came whole: what is stored there is read back by our own client."""
        body = self.check_put(count)
        stored = self.control(self.target("store")).payload
        assert stored == body, "%d of %d bytes are there, and not the same" % (len(stored), len(body))

    def check_down(self):
        name, body = "large", b"n" * BODY_BYTES
        if name not in self.server.paths:
            name, body = "store", b"%08d" % next(numbers) * (BODY_BYTES // 8)
            control = self.control(self.target(name), "PUT", body)
            assert control.code[0] == "2", "not stored: " + control.code
        answer = self.ask(name)
        assert answer.payload == body, "%s, %d of %d bytes: %r" % (
            answer.code, len(answer.payload), len(body), answer.payload[:40])

    def control(self, target, method="GET", payload=b""):
        return Ours().ask("coap+tcp", self.control_port, target, "uri", method, payload)

    def check_observe(self):
        answer = self.ask("time", observe=NOTIFICATIONS)
        assert len(set(answer.payloads)) >= 2, "%s, %d states" % (answer.code,
                                                                  len(answer.payloads))

    def check_error(self):
        answer = self.ask("missing")
        assert answer.code == "4.04", answer.code

    @staticmethod
    def cell_of(check):
        try:
            check()
            return "yes"
        except CannotSpeak:
            return "-"
        except Exception as error:  # pylint: disable=broad-exception-caught; it is the cell
            return "no: " + (str(error).split("\n")[0] or type(error).__name__)[:70]

    def known(self, check):
        """Why a check that does not pass is not our fault, or None."""
        name, role, scheme = self.title
        return KNOWN.get((name, role, scheme, check)) or \
            KNOWN.get((name.rsplit(" ", 1)[0], role, scheme, check))

    def surprises(self):
        return [check for check in CHECKS
                if self.cells[check].startswith("no") and not self.known(check)]

    def run(self, control_port):
        self.control_port = control_port
        ways = {form: lambda form=form: self.check_form(form) for form in FORMS}
        ways.update({"PUT": self.check_put, "up": self.check_up, "down": self.check_down,
                     "observe": self.check_observe, "4.04": self.check_error})
        for check in CHECKS:
            for _ in range(2):  # the second time where the first fails
                self.cells[check] = self.cell_of(ways[check])
                if not self.cells[check].startswith("no"):
                    break
        print("%-34s %-8s %-10s %s" % (*self.title, " ".join(
            "%s=%s" % (check, self.cells[check].split(":")[0]) for check in CHECKS)), flush=True)
        for check in CHECKS:
            if self.cells[check].startswith("no"):
                print("    %s: %s" % (check, self.cells[check]), flush=True)


def rows_of(peer, folder):
    reference = peers.libcoap_notls()
    for scheme in peer.transports:
        proxy = start_proxy(folder)
        server, port = reference.start_origin("coap")
        try:
            row = Row(peer, "client", scheme, peer, proxy.port(scheme), reference, port, "coap")
            row.run(proxy.port("coap+tcp"))
            yield row
        finally:
            server.stop()
        server, port = peer.start_origin(scheme)
        try:
            row = Row(peer, "origin", scheme, Ours(), proxy.port("coap+tcp"), peer, port, scheme)
            row.run(proxy.port("coap+tcp"))
            yield row
        finally:
            server.stop()
            proxy.stop()
        if peer.start_parent:
            for form in PARENT_FORMS.get(peer.name, ("proxy-cri",)):
                yield parent_row(peer, scheme, form, folder)


def parent_row(peer, scheme, form, folder):
    """A chain: our client, the proxy, the peer as its parent, and as origin server. That is its
    own, too: aiocoap's proxy refuses answers with a Max-Age, which coap-server sends. One worker,
    as each learns by its own safe requests which forms the parent takes, and a PUT comes last."""
    parent, via = peer.start_parent(scheme)
    proxy = start_proxy(folder, "--set", "proxy.workers=1", "--set", "route parent.target=*://*",
                        "--set", "route parent.via=%s://127.0.0.1:%d" % (scheme, via),
                        "--set", "route parent.form=" + form)
    role = "parent" if form == "proxy-cri" else "parent, " + form
    server, port = peer.start_origin("coap")
    try:
        row = Row(peer, role, scheme, Ours(), proxy.port("coap+tcp"), peer, port, "coap")
        row.run(proxy.port("coap+tcp"))
        return row
    finally:
        server.stop()
        proxy.stop()
        parent.stop()


# --- OSCORE --------------------------------------------------------------------

# A block of 1,024 bytes inside: a code, an ETag, a Content-Format, Block2, Size2, the tag.
OSCORE_BLOCK_BYTES = 1042


def check_oscore(libcoap, folder):
    """End to end through the proxy, which sees neither path nor blocks: a body in blocks whose
    protected form is over 1,024 bytes. The sentence for the table; fails where it does not come."""
    oscore = peers.Oscore(libcoap, folder)
    proxy = start_proxy(folder)
    server = oscore.start_origin()
    try:
        body = b"%08d" % next(numbers) * (BODY_BYTES // 8)
        # coap-client 4.3.4 has the path twice where it protects a request to a proxy.
        for path in (("store",), ("store", "store")):
            target = Target("127.0.0.1", server.port, path)
            code = Ours().ask("coap+tcp", proxy.port("coap+tcp"), target, "uri", "PUT", body).code
            assert code[0] == "2", "not stored: " + code
        answer, lengths = oscore.get(proxy.port("coap"), server.port, "store")
        assert answer == body, "%d of %d bytes" % (len(answer), len(body))
        assert max(lengths) >= OSCORE_BLOCK_BYTES, "no block came whole: %s" % lengths
        return "%s: a GET of %d bytes inside OSCORE, in blocks of up to %d bytes" % (
            libcoap.name, len(body), max(lengths))
    finally:
        server.stop()
        proxy.stop()


def oscore_lines(folder, only):
    """(what passes, (what does not, why), (peer without OSCORE, why))"""
    passed, failed, skipped = [], [], []
    for name, make in {"libcoap": peers.libcoap_notls, **peers.libcoap_others()}.items():
        if only and only not in name:
            continue
        try:
            passed.append(check_oscore(make(), folder))
            print(passed[-1], flush=True)
        except Missing as missing:
            skipped.append((name + ", OSCORE", str(missing)))
        except Exception as error:  # pylint: disable=broad-exception-caught; it is the result
            failed.append("%s: `%s`" % (name, str(error).split("\n")[0]))
            print("OSCORE: " + failed[-1], flush=True)
    return passed, failed, skipped


def checker_result(folder, only):
    """(what Californium's checker says or None, [(Californium, why it is not here)])"""
    if only and only not in "Californium":
        return None, []
    try:
        return californium.check(start_proxy, folder), []
    except Missing as missing:
        print("Californium is skipped: %s" % missing, flush=True)
        return None, [("Californium", str(missing))]
    except Exception as error:  # pylint: disable=broad-exception-caught; nothing passes then
        print("Californium's checker: %s" % error, flush=True)
        return {"direct": set(), "through": set(), "all": set()}, []


# --- the table ----------------------------------------------------------------

def document(rows, skipped, oscore, checked):
    version = subprocess.run([program("criproxyd"), "--version"], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, check=True).stdout.split("\n")[0]
    lines = ["# Interoperability", "",
             "Made by `tests/interop/matrix.py --write`; do not edit. Which peers there are and "
             "how others are named: [tests/interop/README.md](../tests/interop/README.md).", "",
             "%s, %s, %s, %s." % (datetime.date.today().isoformat(), version, system_name(),
                                  platform.machine()), "",
             "A client asks libcoap's coap-server through the proxy; an origin server is asked by "
             "the tests' own client; a parent is the next proxy on the way to its own origin server. The "
             "forms are GETs; blocks are bodies of %d bytes." % BODY_BYTES, ""]
    lines += ["| peer | role | transport | " + " | ".join(TITLES.get(c, c) for c in CHECKS) + " |",
              "|---|---|---|" + "---|" * len(CHECKS)]
    notes = {}  # what does not pass, by peer, role and reason
    for row in rows:
        cells = []
        for check in CHECKS:
            cell = row.cells[check]
            if cell.startswith("no"):
                peer, role, scheme = row.title
                reason = (peer, role, row.known(check) or "not explained yet")
                notes.setdefault(reason, []).append("%s, %s `%s`" % (
                    scheme, TITLES.get(check, check), cell[4:].replace("`", "'")))
                cell = "no (%d)" % (list(notes).index(reason) + 1)
            cells.append(cell)
        lines.append("| " + " | ".join([*row.title, *cells]) + " |")
    if notes:
        lines += ["", "What does not pass:", ""]
        lines += ["%d. %s, %s: %s. That is: %s." % (number, *reason, "; ".join(cells))
                  for number, (reason, cells) in enumerate(notes.items(), 1)]
    lines += ["", "Known of peers, whether or not it showed here:", ""]
    lines += ["- %s: %s." % item for item in sorted(known_of_peers() + GONE_AROUND)]
    passed, failed = oscore
    lines += ["", "OSCORE (RFC 8613), from libcoap's client to libcoap's server through the proxy, "
              "which sees neither path nor blocks and passes each block whole:", ""]
    lines += ["- %s: yes." % line for line in passed]
    lines += ["- %s: no." % line for line in failed]
    lines += ["- no peer has it here."] if not passed and not failed else []
    lines += californium.lines(checked) if checked else []
    if skipped:
        lines += ["", "Not to be had where this was made:", ""]
        lines += ["- %s: %s." % item for item in skipped]
    return "\n".join(lines) + "\n\n" + OSCORE.read_text() + "\n" + SECURE.read_text()


def known_of_peers():
    """[(peer, role and checks, what is known)], each once."""
    checks = {}
    for (name, role, _, check), why in KNOWN.items():
        checks.setdefault((name.split(" (")[0], role, why), {})[TITLES.get(check, check)] = True
    return [("%s, %s, %s" % (name, role, ", ".join(titles)), why)
            for (name, role, why), titles in checks.items()]


def system_name():
    return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())


def peers_here(only, home):
    """Yields (name, peer or None, why not)."""
    makers = {"libcoap": peers.libcoap_notls, "libcoap with OpenSSL": peers.libcoap_openssl,
              **peers.libcoap_others(), "aiocoap": peers.Aiocoap,
              "node-coap": lambda: peers.NodeCoap(home)}
    for name, make in makers.items():
        if only and only not in name:
            continue
        try:
            yield name, make(), None
        except Missing as missing:
            yield name, None, str(missing)


def main():
    parser = argparse.ArgumentParser(description="other people's CoAP around the proxy")
    parser.add_argument("--write", action="store_true", help="write docs/INTEROP.md")
    parser.add_argument("--only", help="peers whose name has this word")
    options = parser.parse_args()
    rows, skipped = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, peer, why_not in peers_here(options.only, folder):
            if peer is None:
                print("%s is skipped: %s" % (name, why_not), flush=True)
                skipped.append((name, why_not))
                continue
            rows += rows_of(peer, folder)
        passed, failed, without = oscore_lines(folder, options.only)
        skipped += without
        oscore = passed, failed
        checked, without = checker_result(folder, options.only)
        skipped += without
    cells = [cell for row in rows for cell in row.cells.values() if cell != "-"]
    passed = cells.count("yes")
    print("%d of %d checks pass, %d rows, %d peers skipped" % (passed, len(cells), len(rows),
                                                              len(skipped)))
    if options.write:
        with open(os.path.join(ROOT, "docs", "INTEROP.md"), "w", encoding="utf-8") as file:
            file.write(document(rows, skipped, oscore, checked))
    if failed or (checked and californium.has_surprises(checked)):
        return 1
    return 0 if (rows or checked) and not any(row.surprises() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
