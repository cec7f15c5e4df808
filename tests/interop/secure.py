#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Peers on DTLS as a table, from the tests that ask them.

    tests/interop/secure.py run BUILD RESULT.json   runs the tests with what is in BUILD
    tests/interop/secure.py table RESULT.json...    prints the table of such runs

Which peers there are, and in which versions, depends on the system: run it on each.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = ("tests/unit/tls/test_dtls_peers.py", "tests/unit/upstream/test_native.py",
         "tests/system/test_connection_ids.py")
PACKAGES = ("openssl", "gnutls-bin", "libcoap3-bin", "libmbedtls-dev")

# Peer, its role, what authenticates; then the name of the test, whose parameter is the suite.
ROWS = (
    ("openssl s_client", "client", "key", r"test_s_client_with_psk\[(.+)\]"),
    ("openssl s_client", "client", "certificates of both",
     r"test_s_client_with_a_certificate\[(.+)\]"),
    ("openssl s_client", "client", "certificates of both, datagrams of 300 bytes",
     r"test_s_client_with_certificates_and_small_datagrams"),
    ("openssl s_client", "client", "key, resumed", r"test_s_client_resumes"),
    ("gnutls-cli", "client", "key", r"test_gnutls_cli_with_psk\[(.+)\]"),
    ("gnutls-cli", "client", "certificates of both", r"test_gnutls_cli_with_a_certificate\[(.+)\]"),
    ("libcoap's coap-client", "client", "key", r"test_libcoap_with_psk\[alice-.*(openssl|gnutls)\]"),
    ("libcoap's coap-client", "client", "certificates of both",
     r"test_libcoap_with_certificates\[coap-client-(.+)\]"),
    ("openssl s_server", "server", "key", r"test_data_with_each_suite_of_a_key\[(.+)\]"),
    ("openssl s_server", "server", "certificates of both",
     r"test_data_with_each_suite_of_a_certificate\[(.+)\]"),
    ("openssl s_server", "server", "resumed", r"test_a_session_is_resumed\[(.+)\]"),
    ("gnutls-serv", "server", "certificates of both", r"test_gnutls_serv\[(.+)\]"),
    ("libcoap's coap-server", "server", "key", r"test_libcoap_server\[key-coap-server-(.+)\]"),
    ("libcoap's coap-server", "server", "certificates of both",
     r"test_libcoap_server\[certificate-coap-server-(.+)\]"),
    ("Mbed TLS", "client", "key, connection ids, its port changes",
     r"test_a_session_goes_on_from_a_new_port\[(.+)\]"),
    ("Mbed TLS", "client", "key, connection ids, resumed", r"test_resumed_with_ids\[(.+)\]"),
    ("Mbed TLS", "server", "key, connection ids of 3 bytes", r"test_connection_ids\[0a0b0c-(.+)\]"),
    ("Mbed TLS", "server", "key, our port changes", r"test_a_nat_that_changes_its_port"),
)


def program(build, *names):
    return {key: str(build / path) for key, path in names if (build / path).exists()}


def outcome_of(case):
    for what in ("failure", "error"):
        if case.find(what) is not None:
            return "no"
    skipped = case.find("skipped")
    return "yes" if skipped is None else "not here: " + skipped.get("message", "")


def run_tests(build, files):
    environment = dict(
        os.environ, PYTHONPATH=str(ROOT / "tests/support"), UPSTREAM_ENGINE="native",
        PYTHONDONTWRITEBYTECODE="1", LD_LIBRARY_PATH=str(build / "lib"), **program(
            build, ("DTLS_ANSWER", "tests/unit/tls/dtls_answer"),
            ("UPSTREAM_ASK", "tests/unit/upstream/upstream_ask"),
            ("CID_CLIENT", "tests/support/cid_client"), ("CID_SERVER", "tests/support/cid_server"),
            ("CRIPROXYD", "daemon/criproxyd"), ("CRIPROXYCTL", "daemon/ctl/criproxyctl")))
    results = {}
    for file in files:
        path = ROOT / file
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            subprocess.run(
                ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml",
                 report.name, path.name], cwd=path.parent, env=environment, check=False)
            for case in ElementTree.parse(report.name).iter("testcase"):
                results[case.get("name")] = outcome_of(case)
    return results


def version_of(package):
    done = subprocess.run(["dpkg-query", "--show", "--showformat", "${Version}", package],
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else "none"


def table(runs):
    lines = ["## DTLS, by suite", "",
             "Made by `tests/interop/secure.py` from the tests of the same names; handshake and data, both "
             "ways, on the proxy's own records.",
             ""]
    for run in runs:
        lines.append("- %s, %s: %s." % (run["date"], run["system"], ", ".join(
            "%s %s" % item for item in run["versions"].items())))
    lines += ["", "| peer | role | authenticated by | suite or library | %s |" % " | ".join(
        run["system"] for run in runs), "|---|---|---|---|%s" % ("---|" * len(runs))]
    for peer, role, how, pattern in ROWS:
        found = {}
        for run in runs:
            for name in run["results"]:
                match = re.fullmatch(pattern, name)
                if match:
                    found.setdefault(match.group(1) if match.groups() else "", name)
        for suite, name in found.items():
            cells = [run["results"].get(name, "-") for run in runs]
            lines.append("| %s | %s | %s | %s | %s |" % (
                peer, role, how, suite.lstrip("+").replace(":+", ", "), " | ".join(
                    cell.split(":", 1)[0] for cell in cells)))
    reasons = sorted({cell.split(":", 1)[1].strip() for run in runs for name, cell in
                      run["results"].items() if cell.startswith("not here:") and any(
                          re.fullmatch(row[3], name) for row in ROWS)})
    lines += ["", "Not here:", "", *("- %s" % reason for reason in reasons)] if reasons else []
    return "\n".join(lines) + "\n"


def main(files, packages, table_of):
    """The command line of this script, and of others like it."""
    if sys.argv[1] == "run":
        result = {"date": datetime.date.today().isoformat(),
                  "system": platform.freedesktop_os_release()["PRETTY_NAME"],
                  "versions": {package: version_of(package) for package in packages},
                  "results": run_tests(pathlib.Path(sys.argv[2]).resolve(), files)}
        pathlib.Path(sys.argv[3]).write_text(json.dumps(result, indent=1))
    else:
        print(table_of([json.loads(pathlib.Path(file).read_text()) for file in sys.argv[2:]]), end="")


if __name__ == "__main__":
    main(FILES, PACKAGES, table)
