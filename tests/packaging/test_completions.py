# SPDX-License-Identifier: BSD-2-Clause
"""The completions as they are installed, in the shells they are for: what they offer is
what the programs take."""

import os
import re
import shutil
import subprocess

import pytest

STAGE = os.environ["CRI_STAGE"]
BASH = os.path.join(STAGE, "share/bash-completion/completions")
ZSH = os.path.join(STAGE, "share/zsh/site-functions")
CONFIGURATION = os.path.join(STAGE, "etc/criproxy/criproxyd.conf")
PATH = os.pathsep.join((os.path.join(STAGE, "bin"), os.path.join(STAGE, "sbin"), os.environ["PATH"]))
TIMEOUT_S = 120
PROGRAMS = sorted(os.listdir(BASH))

# The words of the line, asked of the completion as the shell would ask it.
BASH_SCRIPT = """
source "$1/$2"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
"_$2"
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh's own functions print what they are given to offer.
ZSH_SCRIPT = """
emulate -R zsh
compadd() {
    while [[ $1 == -* ]]; do
        case $1 in
        -S) shift 2 ;;
        -a) print -rl -- ${(P)2}; return ;;
        --) shift; break ;;
        *) shift ;;
        esac
    done
    print -rl -- "$@"
}
_describe() { print -rl -- ${(P)2} }
_arguments() {
    print -rl -- "$@"
    if [[ -n $STATE ]]; then
        $STATE
    fi
}
_call_program() { shift; eval "$*" }
_files() { print files }
folder=$1 program=$2 STATE=$3
typeset -A opt_args
opt_args=(-c $4)
words=("$program" "${@:5}")
CURRENT=$#words PREFIX=$words[-1]
source $folder/_$program
"""


def run(program, *arguments):
    done = subprocess.run(
        [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": PATH}, timeout=TIMEOUT_S, check=False)
    assert done.stderr == "", done.stderr
    return done.stdout.split("\n")[:-1]


def in_bash(*words):
    return [word for word in run("bash", "-c", BASH_SCRIPT, "bash", BASH, *words) if word]


def in_zsh(program, *words, state=""):
    return run("zsh", "-f", "-c", ZSH_SCRIPT, "zsh", ZSH, program, state, CONFIGURATION, *words)


def help_of(*command):
    return "\n".join(run(*command, "--help"))


def options_of(*command):
    return set(re.findall(r"--[a-z][a-z-]*", help_of(*command)))


needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


def keys():
    """Every key of the configuration, as --set takes it."""
    found, section = set(), None
    with open(CONFIGURATION, encoding="utf-8") as file:
        for line in file:
            if re.match(r"\[[a-z]+\]$", line):
                section = line.strip()[1:-1]
            match = re.match(r"#?([a-z][a-z-]*) = ", line)
            if match:
                found.add("%s.%s=" % (section, match[1]))
    assert len(found) > 40
    return found


def test_every_program_has_both():
    assert set(PROGRAMS) >= {"coapbench", "coapcheck", "cri", "criproxyd"}
    assert ["_" + name for name in PROGRAMS] == sorted(os.listdir(ZSH))
    installed = os.listdir(os.path.join(STAGE, "bin")) + os.listdir(os.path.join(STAGE, "sbin"))
    assert set(PROGRAMS) == set(installed)


@needs_bash
def test_bash_criproxyd():
    assert options_of("criproxyd") <= set(in_bash("criproxyd", "-"))
    assert in_bash("criproxyd", "--ch") == ["--check-config"]
    assert in_bash("criproxyd", "--listen", "coaps+t") == ["coaps+tcp://"]
    assert set(in_bash("criproxyd", "-c", CONFIGURATION, "--set", "")) == keys()
    assert in_bash("criproxyd", "-c", CONFIGURATION, "--set", "proxy.str") == ["proxy.strict="]
    assert CONFIGURATION in in_bash("criproxyd", "-c", CONFIGURATION[:-2])


@needs_bash
def test_bash_cri():
    commands = re.findall(r"^  cri ([a-z-]+) ", help_of("cri"), re.MULTILINE)
    assert len(commands) > 10
    assert set(commands) <= set(in_bash("cri", ""))
    assert in_bash("cri", "rel") == ["relate"]
    for command in commands:
        assert options_of("cri", command) <= set(in_bash("cri", command, "--")), command


@needs_bash
def test_bash_coapbench():
    assert {"load", "origin", "relay"} <= set(in_bash("coapbench", ""))
    for command in ("load", "origin", "relay"):
        assert options_of("coapbench", command) == set(in_bash("coapbench", command, "--"))
    assert in_bash("coapbench", "load", "--form", "sch") == ["scheme-number", "scheme"]


@needs_bash
@pytest.mark.skipif("criproxyctl" not in PROGRAMS, reason="no criproxyctl in this build")
def test_bash_criproxyctl():
    commands = re.findall(r"^  ([a-z][a-z-]*) .*  ", help_of("criproxyctl"), re.MULTILINE)
    assert "status" in commands
    assert set(commands) <= set(in_bash("criproxyctl", ""))
    assert options_of("criproxyctl") <= set(in_bash("criproxyctl", "--"))
    assert in_bash("criproxyctl", "log-level", "de") == ["debug"]


@needs_zsh
def test_zsh_criproxyd():
    offered = "\n".join(in_zsh("criproxyd", "-"))
    for option in options_of("criproxyd"):
        assert re.search(r"(^|[*,)])%s(\[|$)" % option, offered, re.MULTILINE), option
    assert "coaps+tcp://" in in_zsh("criproxyd", "", state="_criproxyd_listen")
    assert keys() <= set(in_zsh("criproxyd", "", state="_criproxyd_keys"))


@needs_zsh
def test_zsh_cri():
    commands = re.findall(r"^  cri ([a-z-]+) ", help_of("cri"), re.MULTILINE)
    offered = {line.split(":")[0] for line in in_zsh("cri", "")}
    assert set(commands) - offered == set()
    assert options_of("cri", "resolve") <= set(in_zsh("cri", "resolve", "--"))


@needs_zsh
def test_zsh_coapbench():
    assert {"devices", "load", "origin", "relay"} == {line.split(":")[0] for line in in_zsh("coapbench", "")}
    assert options_of("coapbench", "load") == set(in_zsh("coapbench", "load", "--"))
    assert "scheme-number" in in_zsh("coapbench", "load", "--form", "")


@needs_zsh
@pytest.mark.skipif("criproxyctl" not in PROGRAMS, reason="no criproxyctl in this build")
def test_zsh_criproxyctl():
    commands = re.findall(r"^  ([a-z][a-z-]*) .*  ", help_of("criproxyctl"), re.MULTILINE)
    assert set(commands) <= {line.split(":")[0] for line in in_zsh("criproxyctl", "")}
    assert options_of("criproxyctl") <= set(in_zsh("criproxyctl", "--"))


@needs_bash
def test_bash_coapcheck():
    assert options_of("coapcheck") == set(in_bash("coapcheck", "--"))
    assert {"FWD", "OBS"} <= set(in_bash("coapcheck", "--only", ""))


@needs_bash
def test_bash_coap_traceroute():
    assert options_of("coap-traceroute") == set(in_bash("coap-traceroute", "--"))
    assert set(in_bash("coap-traceroute", "--form", "")) == {"cri", "uri"}


@needs_zsh
def test_zsh_coapcheck():
    assert options_of("coapcheck") == set(in_zsh("coapcheck", "--"))
    assert {"FWD", "OBS"} <= set(in_zsh("coapcheck", "--only", ""))


@needs_zsh
def test_zsh_coap_traceroute():
    assert options_of("coap-traceroute") == set(in_zsh("coap-traceroute", "--"))
    assert set(in_zsh("coap-traceroute", "--form", "")) == {"cri", "uri"}
