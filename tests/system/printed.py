# SPDX-License-Identifier: BSD-2-Clause
"""The blocks that a document prints, and a terminal to run them in as they are printed.

A fence's second word says how its block is run:

    ```sh           in the terminal, in the order of the document
    ```sh server    each in the background: programs that stay until Ctrl-C
    ```sh system    changes the machine, so a test of tests/packaging shows it
    ```sh untried   shown by no test, as the document has to say

The terminal is a shell in namespaces of its own, so that the ports and paths that are
printed can be used as they are, whatever else this machine runs.
"""

import os
import re
import shutil
import signal
import subprocess

from coap_wire import PATIENCE_S
from processes import ROOT, program

WORDS = ("sh", "sh server", "sh system", "sh untried", "ini", "text")

# What the blocks take for granted: programs on the path and where a release build has them, a
# group for keys, folders that the packages make, and addresses.
SETUP = r"""
set -euo pipefail
mount -n --make-rprivate / 2>/dev/null || true
for folder in /etc /run; do
    mount -n -t tmpfs tmpfs /mnt
    [[ $folder == /run ]] || cp -a /etc/. /mnt/ 2>/dev/null || true
    mount -n --move /mnt "$folder"
done
rm -rf /etc/criproxy
mkdir -p /etc/criproxy/tls /run/criproxy
sed -i '/^criproxy:/d' /etc/group
echo 'criproxy:x:0:' >>/etc/group
printf '%s\n' '127.0.0.1 localhost' '192.168.7.1 gateway.example' >/etc/hosts
ip link set lo up
for address in 192.168.1.1 192.168.7.1 192.168.7.7 192.168.7.20; do
    ip address add "$address/32" dev lo
done
sudo() { "$@"; }
sockets() { cat /proc/net/udp /proc/net/udp6 /proc/net/tcp /proc/net/tcp6 /proc/net/unix | wc -l; }
"""


def read(document):
    with open(os.path.join(ROOT, document), encoding="utf-8") as file:
        return file.read()


def blocks(document):
    """(word, text) of each; the fences of a list are indented."""
    found = re.findall(r"^( *)```([^\n`]*)\n(.*?)^\1```$", read(document), re.MULTILINE | re.DOTALL)
    return [(word, re.sub("^" + indent, "", text, flags=re.MULTILINE))
            for indent, word, text in found]


def namespaces():
    """The command that runs another in namespaces of its own; None where none are to be had."""
    own = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for command in (["unshare", *own], ["unshare", "--user", "--map-root-user", *own]):
        trial = "ip link set lo up && mount -n -t tmpfs tmpfs /mnt && mount -n --move /mnt /run"
        if shutil.which("unshare") and shutil.which("ip") and subprocess.run(
                [*command, "sh", "-c", trial], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=PATIENCE_S, check=False).returncode == 0:
            return command
    return None


class Terminal:
    """A shell that runs one block after the other, and what the blocks leave running."""

    def __init__(self, command, folder):
        self.folder = folder
        self.count = 0
        tree = folder / "tree"  # the reader's checkout
        for name, place in (("criproxyd", "daemon"), ("cri", "tools")):
            (tree / "build/release" / place).mkdir(parents=True)
            (tree / "build/release" / place / name).symlink_to(program(name))
        for name in ("docs", "tools"):
            (tree / name).symlink_to(os.path.join(ROOT, name))
        commands = folder / "commands"
        commands.mkdir()
        for name in ("criproxyd", "criproxyctl", "cri", "coapbench"):
            (commands / name).symlink_to(program(name))
        path = "%s:%s:/usr/sbin:/sbin" % (commands, os.environ["PATH"])
        self.shell = subprocess.Popen(
            [*command, "bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, cwd=tree, env=dict(os.environ, PATH=path))
        self.run(SETUP)

    def run(self, text, patience_s=4 * PATIENCE_S):
        """What the block writes to its standard output; each command has to succeed."""
        self.count += 1
        out, err = self.folder / ("out%d" % self.count), self.folder / ("err%d" % self.count)
        self.shell.stdin.write("{\n%s\n} </dev/null >%s 2>%s\necho done\n" % (text, out, err))
        self.shell.stdin.flush()
        said = self._line(patience_s)
        assert said == "done\n", "a command failed in\n%s\n%s\n%s" % (
            text, out.read_text(errors="replace"), err.read_text(errors="replace"))
        return out.read_text()

    def _line(self, patience_s):
        # At its end the shell closes its output, so that reading ends, too.
        signal.signal(signal.SIGALRM, lambda *_: self.shell.kill())
        signal.alarm(int(patience_s))
        try:
            return self.shell.stdout.readline()
        finally:
            signal.alarm(0)

    def serve(self, text):
        """A program that stays, from when it has a socket more."""
        self.run("before=$(sockets)")
        log = self.folder / ("server%d" % self.count)
        self.run("{ %s\n} >%s 2>&1 &\nlast=$!" % (text.rstrip("\n"), log))
        self.run('until [[ $(sockets) -gt $before ]]; do\n    kill -0 "$last"\n    sleep 0.05\ndone')
        return log

    def close(self):
        """The end of the shell is the end of all that runs in its namespace."""
        self.shell.stdin.close()
        try:
            self.shell.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.shell.kill()
            self.shell.wait()
        self.shell.stdout.close()
