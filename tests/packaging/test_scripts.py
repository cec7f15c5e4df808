# SPDX-License-Identifier: BSD-2-Clause
"""What scripts/deps and scripts/run tell their user: how far the installation is, and the table at the
end; and of what tests/packaging/base makes a system. Packages and cmake are played; the proxy, its tools
and libcoap's are real."""

import os
import re
import shutil
import signal
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGE = os.environ["CRI_STAGE"]
PATIENCE_S = 120

# apt's progress, as apt-get writes it to the descriptor of APT::Status-Fd.
APT_GET = r"""
for word in "$@"; do
    case $word in --option=APT::Status-Fd=*) fd=${word##*=} ;; esac
done
[[ -n ${fd:-} ]] || exit 0
for line in dlstatus:1:2.5:x dlstatus:2:7.5:x pmstatus:gcc:4.2:x pmstatus:gcc:10.0:x \
    pmstatus:gcc:19.9:x pmstatus:gcc:41.6:x pmerror:gcc:50:x pmstatus:gcc:100.0:x; do
    printf '%s\n' "$line" >&"$fd"
done
"""


def play(folder, name, text):
    """A program of that name on the path, in bash."""
    path = folder / name
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def run(command, folder, cwd):
    return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False, text=True,
                          env=dict(os.environ, PATH="%s:%s" % (folder, os.environ["PATH"])))


def test_deps_says_how_far_it_is(tmp_path):
    """Command line, documents: a line for each tenth, and none twice, while packages are installed."""
    play(tmp_path, "dpkg-query", "exit 1\n")
    play(tmp_path, "apt-cache", "echo '  Candidate: 1'\n")
    play(tmp_path, "apt-get", APT_GET)
    play(tmp_path, "sudo", 'exec "$@"\n')
    done = run([os.path.join(ROOT, "scripts", "deps"), "run"], tmp_path, ROOT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert lines[0].startswith("deps: installing from Debian's packages: gcc "), lines
    # A helper of the script writes them, which may be behind it.
    assert [line for line in lines if "%" in line or "downloading" in line] == [
        "deps: downloading", "deps: installing: 10 %", "deps: installing: 40 %",
        "deps: installing: 100 %"], lines


def test_deps_says_nothing_where_all_is_there(tmp_path):
    """Command line, documents: no line, and apt-get is not called."""
    play(tmp_path, "dpkg-query", "printf installed\n")
    play(tmp_path, "apt-get", "echo called\n")
    done = run([os.path.join(ROOT, "scripts", "deps"), "run"], tmp_path, ROOT)
    assert (done.returncode, done.stdout) == (0, "")


def test_base_takes_an_expired_list_only_when_told(tmp_path):
    """Command line, documents: apt judges the age of a list of packages, but with CRI_DEBIAN_EXPIRED=1."""
    play(tmp_path, "apt-get", "")
    play(tmp_path, "mmdebstrap", "printf '%s\\n' \"$@\"\n")
    command = [os.path.join(ROOT, "tests", "packaging", "base"), str(tmp_path / "made.tar")]
    usual = run(["env", "-u", "CRI_DEBIAN_EXPIRED", "CRI_DEBIAN=sid"] + command, tmp_path, ROOT)
    expired = run(["env", "CRI_DEBIAN_EXPIRED=1", "CRI_DEBIAN=sid"] + command, tmp_path, ROOT)
    assert (usual.returncode, expired.returncode) == (0, 0), usual.stdout + expired.stdout
    more = [line for line in expired.stdout.splitlines() if line not in usual.stdout.splitlines()]
    assert more == ['--aptopt=Acquire::Check-Valid-Until "false"'], expired.stdout


@pytest.fixture(name="tree")
def tree_with_programs(tmp_path):
    """What scripts/run looks for, without a build."""
    if not shutil.which("coap-client-notls") or not shutil.which("coap-server-notls"):
        pytest.skip("libcoap's tools are not installed")
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    shutil.copy(os.path.join(ROOT, "scripts", "run"), tree / "scripts" / "run")
    play(tree / "scripts", "deps", "")
    for folder, name, place in (("daemon", "criproxyd", "sbin"), ("tools", "cri", "bin")):
        (tree / "build/release" / folder).mkdir(parents=True)
        (tree / "build/release" / folder / name).symlink_to(os.path.join(STAGE, place, name))
    commands = tmp_path / "commands"
    commands.mkdir()
    play(commands, "cmake", "")
    return tree, commands


def table_of(text):
    """The lines from the table's title on, up to an empty one."""
    return re.search(r"^  the target named by .*\n(?:.+\n)+", text, re.M)[0].splitlines()


def test_run_ends_with_a_table(tree):
    """Command line, documents: one line for each way to name the target, on one screen."""
    tree, commands = tree
    done = run(["scripts/run", "--once"], commands, tree)
    assert done.returncode == 0, done.stdout
    table = table_of(done.stdout)
    assert max(len(line) for line in table) <= 100 and len(table) == 5, table
    for line, name in zip(table[1:], ("Proxy-Cri (235)", "Proxy-Scheme-Number (239)",
                                      "Proxy-Uri (35)", "Proxy-Scheme (39)")):
        assert re.search(r"^  %s .* bytes.* 2\.05 +\d+$" % re.escape(name), line), table


def test_run_says_what_failed(tree):
    """Command line, documents: a request without an answer is in the table, and in the status."""
    tree, commands = tree
    play(commands, "coap-client-notls", r"""
case "$*" in *"-O 39,"*) echo "4.04 Not Found" >&2 ;; *) exec "%s" "$@" ;; esac
""" % shutil.which("coap-client-notls"))
    done = run(["scripts/run", "--once"], commands, tree)
    assert done.returncode == 1 and "run: 1 of 4 requests failed" in done.stdout, done.stdout
    assert [("FAILED" in line) for line in table_of(done.stdout)] == [False] * 4 + [True]
    assert "4.04 Not Found" in table_of(done.stdout)[4]


def test_run_stays_until_it_is_interrupted(tree):
    """Command line, documents: without --once the proxy answers after the table, and Ctrl-C ends both
    it and the origin server."""
    tree, commands = tree
    with subprocess.Popen(["scripts/run"], cwd=tree, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, PATH="%s:%s" % (commands, os.environ["PATH"])),
                          preexec_fn=terminal_signals, process_group=0) as process:
        before, uri = [], None
        for line in process.stdout:
            before.append(line)
            uri = re.match(r"run: criproxyd listens on (\S+) until Ctrl-C", line)
            if uri:
                break
        assert uri, before
        asked = subprocess.run(["coap-client-notls", "-B", "20", uri[1] + "/.well-known/core"],
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S,
                               check=False)
        assert b"4.0" not in asked.stderr, asked
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.stdout.read()
        assert process.wait(PATIENCE_S) == 130
    servers = subprocess.run(["pgrep", "-g", str(process.pid)], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert servers.stdout == ""


def terminal_signals():
    """A program in the background, as under ctest, may have been told to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
