#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Run the JSON vectors through the cri tool, in batches.

run.py [--freestanding] --tool PATH --view PATH FILE...

Every result field of every vector is compared. A vector that rests on a decision
the draft leaves open may have another result here than the one in the file: then
decisions.py says which, and by which row of docs/CONFORMANCE.md.
"""
import argparse
import json
import os
import re
import subprocess
import sys

from decisions import DECISIONS

TIMEOUT_S = 60


class Runner:
    def __init__(self, tool, view, is_freestanding):
        self.is_freestanding = is_freestanding
        self.tool = tool
        self.view = view
        self.batches = {}
        self.failures = []
        self.checked = 0
        self.decided = set()

    def lines(self, arguments, inputs):
        """One result line for each input line."""
        data = "".join(line + "\n" for line in inputs).encode("utf-8", "surrogatepass")
        done = subprocess.run(arguments, input=data, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
        output = done.stdout.decode("utf-8").split("\n")
        if output.pop() != "" or len(output) != len(inputs):
            raise SystemExit(f"{arguments}: {len(inputs)} inputs gave {len(output)} lines; "
                             f"{done.stderr.decode()}")
        return output, done.returncode

    def single(self, arguments):
        done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_S, check=False)
        return done.stdout.decode("utf-8").rstrip("\n"), done.returncode

    def expect(self, vector, field, command, line, accepted=None, key=None):
        """Queue one input. accepted: results that are right, None for a failure."""
        name = key or f"{vector['id']}.{field}"
        if accepted is None:
            accepted = [vector.get(field)]
        if name in DECISIONS:
            wanted, row = DECISIONS[name]
            self.decided.add(name)
            # A decision has to be about something the draft leaves open.
            if not vector.get("ambiguous"):
                self.fail(name, "a decision on a vector that is not ambiguous", row)
            if wanted == accepted[0]:
                self.fail(name, "a decision that agrees with the vector", row)
            accepted = [wanted]
        self.batches.setdefault(tuple(command), []).append((name, line, accepted))

    def fail(self, name, got, wanted):
        self.failures.append(f"{name}\n     got {got}\n  wanted {wanted}")

    def compare(self, name, line, got, accepted):
        self.checked += 1
        is_error = got.startswith("error: ") and len(got) > len("error: ")
        if (None in accepted and is_error) or (not is_error and got in accepted):
            return
        self.fail(f"{name} <- {line}", got, " or ".join(str(x) for x in accepted))

    def run(self):
        for command, cases in self.batches.items():
            output, status = self.lines([self.tool, *command], [line for _, line, _ in cases])
            for (name, line, accepted), got in zip(cases, output):
                self.compare(name, line, got, accepted)
            has_error = any(got.startswith("error: ") for got in output)
            if status != (1 if has_error else 0):
                self.fail(" ".join(command), f"exit status {status}", "1 exactly after an error")


def usage_error(runner, vector, command, key):
    """A bad base is a bad command line: exit status 2 and nothing on standard output."""
    output, status = runner.single([runner.tool, *command])
    runner.checked += 1
    if status != 2 or output != "":
        runner.fail(key or vector["id"], f"exit status {status}, {output!r}", "exit status 2")


def check_view(runner, vectors):
    """The fields that no command shows: encoded, needs, abstract."""
    output, _ = runner.lines([runner.view], [vector["cri"] for vector in vectors])
    for vector, line in zip(vectors, output):
        got = json.loads(line)
        name = f"{vector['id']}.encoded"
        runner.checked += 1
        if name in DECISIONS and DECISIONS[name][0] is None:
            runner.decided.add(name)
            if got is not None:
                runner.fail(name, got, None)
            continue
        wanted = {field: vector[field] for field in ("encoded", "abstract", "needs")}
        wanted["needs"] = sorted(wanted["needs"])
        if got != wanted:
            runner.fail(name, got, wanted)


def check_edn(runner, vectors):
    """Notation reads back: from-diag and diag together change nothing."""
    texts = [vector["edn"] for vector in vectors]
    encoded, _ = runner.lines([runner.tool, "from-diag"], texts)
    output, _ = runner.lines([runner.tool, "diag"], encoded)
    for vector, text, line, got in zip(vectors, texts, encoded, output):
        runner.compare(f"{vector['id']}.from-diag", text, got, [text])
        # Where every head is the shortest there is only one encoding.
        if vector["strict"] is not None:
            runner.compare(f"{vector['id']}.from-diag", text, line, [vector["cri"]])


def check_uris_settle(runner, vectors):
    """CRI-38: a valid full CRI has a URI, and that leads back to a CRI with the same URI.

    Apart from zone-ids and unknown scheme numbers, which have none, and default ports,
    which from-uri leaves out.
    """
    full = [vector for vector in vectors
            if vector["check"] == "full" and f"{vector['id']}.check" not in DECISIONS]
    first, _ = runner.lines([runner.tool, "to-uri"], [vector["cri"] for vector in full])
    known = [(vector, uri) for vector, uri in zip(full, first) if not uri.startswith("error: ")]
    for vector, uri in zip(full, first):
        authority = vector["abstract"]["authority"]
        has_zone = isinstance(authority, dict) and "zone" in authority
        runner.checked += 1
        if uri.startswith("error: ") and not has_zone and uri != "error: unknown scheme number":
            runner.fail(f"{vector['id']}.to-uri", uri, "a URI")
    encoded, _ = runner.lines([runner.tool, "from-uri"], [uri for _, uri in known])
    second, _ = runner.lines([runner.tool, "to-uri"], encoded)
    for (vector, uri), again in zip(known, second):
        default_port = re.search(r":(5683|5684|80|443)(?=/|$|\?|#)", uri)
        if default_port is None:
            runner.compare(f"{vector['id']}.to-uri", vector["cri"], again, [uri])


def expect_strict(runner, vector):
    """A freestanding library has no tables of Unicode, and takes text for normalised."""
    is_about_nfc = vector.get("reason") == "nfc" or vector.get("error") == "validity/nfc"
    if not (runner.is_freestanding and is_about_nfc):
        runner.expect(vector, "strict", ["check", "--strict"], vector["cri"])


def run_decode_valid(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "check", ["check"], vector["cri"])
        expect_strict(runner, vector)
        if not runner.is_freestanding:
            runner.expect(vector, "edn", ["diag"], vector["cri"])
    check_view(runner, vectors)
    if runner.is_freestanding:
        return
    check_edn(runner, vectors)
    check_uris_settle(runner, vectors)


def run_decode_invalid(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "check", ["check"], vector["cri"])
        expect_strict(runner, vector)
        # What is not a CRI has no conversion either.
        commands = ["options"] if runner.is_freestanding else ["to-uri", "options", "to-cori"]
        for command in commands:
            if not vector["strict_only"]:
                runner.expect(vector, command, [command], vector["cri"], [None])


def run_to_uri(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "uri", ["to-uri"], vector["cri"])


def run_from_uri(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "cri", ["from-uri"], vector["uri"],
                      [vector["cri"], *vector.get("also", [])])


def expect_resolve(runner, vector, key=None):
    command = ["resolve", "--base", vector["base"]]
    base_is_bad = vector.get("error") in ("resolve/base-not-full", "resolve/base")
    if base_is_bad:
        usage_error(runner, vector, [*command, vector["ref"]], key)
    else:
        runner.expect(vector, "cri", command, vector["ref"], key=key)


def check_relate(runner, vector):
    """RES-2: relate is the inverse of resolve, and no longer than the reference was."""
    base = ["--base", vector["base"]]
    wanted = vector["cri"]
    reference, status = runner.single([runner.tool, "relate", *base, wanted])
    back, _ = runner.single([runner.tool, "resolve", *base, reference])
    runner.checked += 1
    if status != 0 or back != wanted or len(reference) > min(len(wanted), len(vector["ref"])):
        runner.fail(f"{vector['id']}.relate", f"{reference} for {back}",
                    f"at most {vector['ref']} for {wanted}")


def run_resolve(runner, vectors):
    for vector in vectors:
        expect_resolve(runner, vector)
        if vector["cri"] is not None and f"{vector['id']}.cri" not in DECISIONS:
            check_relate(runner, vector)


def run_compare(runner, vectors):
    for vector in vectors:
        line = f"{vector['a']} {vector['b']}"
        swapped = f"{vector['b']} {vector['a']}"
        for field, command in (("result", ["compare"]),
                               ("result_fragment", ["compare", "--fragment"])):
            if vector["a"] and vector["b"]:
                runner.expect(vector, field, command, line)
                runner.expect(vector, field, command, swapped)


def to_json(vector):
    request = {"scheme": vector["scheme"], "options": vector["options"]}
    return json.dumps(request, ensure_ascii=len(request["options"]) % 2 == 0)


def run_to_options(runner, vectors):
    for vector in vectors:
        result = vector["result"]
        wanted = result and json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        runner.expect(vector, "result", ["options", "--to", vector["to"]], vector["cri"],
                      [wanted and wanted.replace("\x7f", "\\u007f")])


def run_from_options(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "cri", ["from-options", "--to", vector["to"]], to_json(vector))


def run_normalize(runner, vectors):
    for vector in vectors:
        runner.expect(vector, "normalized", ["normalize"], vector["cri"])


def run_normalize_uri(runner, vectors):
    encoded, _ = runner.lines([runner.tool, "from-uri"], [vector["uri"] for vector in vectors])
    for vector, line in zip(vectors, encoded):
        failed = line.startswith("error: ")
        # An input that to-uri refuses as well stands for the failure of from-uri.
        runner.expect(vector, "normalized", ["to-uri"], "" if failed else line)


def run_wg(runner, vectors):
    for vector in vectors:
        for index, check in enumerate(vector["checks"]):
            check["id"] = f"{vector['id']}.{index}"
            operation = check["op"]
            if operation == "check":
                runner.expect(check, "check", ["check"], check["cri"])
            elif operation == "normalize":
                runner.expect(check, "normalized", ["normalize"], check["cri"])
            elif operation == "to-uri":
                runner.expect(check, "uri", ["to-uri"], check["cri"])
            elif operation == "from-uri":
                runner.expect(check, "cri", ["from-uri"], check["uri"],
                              [check["cri"], *check.get("also", [])])
            elif operation == "resolve":
                expect_resolve(runner, check)
            else:
                runner.fail(check["id"], operation, "a known operation")


FILES = {
    "decode-valid.json": run_decode_valid,
    "decode-invalid.json": run_decode_invalid,
    "to-uri.json": run_to_uri,
    "from-uri.json": run_from_uri,
    "resolve.json": run_resolve,
    "compare.json": run_compare,
    "to-options.json": run_to_options,
    "from-options.json": run_from_options,
    "normalize.json": run_normalize,
    "normalize-uri.json": run_normalize_uri,
    "wg.json": run_wg,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--view", required=True)
    parser.add_argument("--freestanding", action="store_true")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    runner = Runner(arguments.tool, arguments.view, arguments.freestanding)
    total = 0
    for path in arguments.files:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        vectors = content["vectors"]
        if len(vectors) != content["count"]:
            runner.fail(path, f"{len(vectors)} vectors", content["count"])
        FILES[os.path.basename(path)](runner, vectors)
        total += len(vectors)
    runner.run()
    for failure in runner.failures:
        print(failure)
    print(f"{total} vectors, {runner.checked} results, {len(runner.decided)} by a decision, "
          f"{len(runner.failures)} wrong")
    return 1 if runner.failures or runner.checked < total else 0


if __name__ == "__main__":
    sys.exit(main())
