# SPDX-License-Identifier: BSD-2-Clause
"""docs/guides: each configuration that they show is one that criproxyd takes, and each
file and command that they name is there."""

import glob
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STAGE = os.environ["CRI_STAGE"]
CRIPROXYD = os.path.join(STAGE, "sbin/criproxyd")
GUIDES = sorted(glob.glob(os.path.join(ROOT, "docs/guides/*.md")))
TIMEOUT_S = 120


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def configurations():
    for path in GUIDES:
        for number, text in enumerate(re.findall(r"^```ini\n(.*?)^```", read(path), re.S | re.M)):
            yield pytest.param(text, id="%s-%d" % (os.path.basename(path), number))


def check(tmp_path, text):
    """The configuration with a file of keys of its own: a check reads that, too."""
    file, keys = tmp_path / "criproxyd.conf", tmp_path / "psk"
    key, tokens = tmp_path / "provider.key", tmp_path / "tokens"
    secret = tmp_path / "cluster.secret"
    file.write_text(text.replace("/etc/criproxy/tls/psk", str(keys))
                    .replace("/etc/criproxy/tokens", str(tokens))
                    .replace("/etc/criproxy/tls/cluster.secret", str(secret))
                    .replace("/etc/criproxy/tls/provider.key", str(key)))
    key.write_text("ab" * 16 + "\n")
    key.chmod(0o600)
    secret.write_text("cd" * 32 + "\n")
    secret.chmod(0o600)
    tokens.write_text("dashboard:%s\n" % ("ab" * 32))
    tokens.chmod(0o600)
    keys.write_text("desk:%s\n" % ("ab" * 16))
    keys.chmod(0o600)
    return subprocess.run([CRIPROXYD, "-c", str(file), "--check-config"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)


def test_the_guides():
    assert [os.path.basename(path) for path in GUIDES] == [
        "devices.md", "first-steps.md", "gateway.md", "lab.md", "microcontrollers.md", "router.md",
        "scaling.md", "web.md"]


def test_sizes_are_those_of_the_program():
    """docs/guides/router.md: the table of proxy.size has the values of sizes.def and options.def."""
    sizes = re.findall(r'^SIZED\((\w+), +(\w+), +"([^"]+)", +"([^"]+)"\)',
                       read(os.path.join(ROOT, "daemon/conf/sizes.def")), re.M)
    presets = {(section, key): preset for section, key, preset in re.findall(
        r'^OPTION\((\w+), +(\w+), +\w+, +[^"]*"([^"]*)"',
        read(os.path.join(ROOT, "daemon/conf/options.def")), re.M)}
    rows = ["| %s.%s | %s | %s | %s |" % (section, key.replace("_", "-"), small,
                                          presets[section, key], large)
            for section, key, small, large in sizes]
    assert len(rows) == 25
    assert rows == re.findall(r"^\| [a-z]+\..* \|$", read(os.path.join(ROOT, "docs/guides/router.md")), re.M)


@pytest.mark.parametrize("text", configurations())
def test_configurations_are_taken(text, tmp_path):
    """Issue 8: what a guide says to write is a configuration."""
    done = check(tmp_path, text)
    assert done.returncode == 0, done.stdout
    key = re.search(r"^([a-z-]+) = ", text, re.M)
    assert check(tmp_path, text.replace(key[0], "x" + key[0], 1)).returncode == 2


@pytest.mark.parametrize("path", GUIDES, ids=os.path.basename)
def test_links_lead_somewhere(path):
    """Issue 8: files of this tree that a guide links to."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(path))
    assert links
    for link in links:
        assert os.path.exists(os.path.join(os.path.dirname(path), link)), link


def test_links_lead_somewhere_where_they_are_installed():
    """The package's documents link to files of the package only."""
    found = 0
    for path in glob.glob(os.path.join(STAGE, "share/doc/**/*.md"), recursive=True):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(path)):
            assert os.path.exists(os.path.join(os.path.dirname(path), link)), (path, link)
            found += 1
    assert found >= len(GUIDES)


def test_pages_that_units_name_are_installed():
    """Documentation=man:NAME(SECTION) leads to a page of the package."""
    for unit in glob.glob(os.path.join(STAGE, "lib/systemd/system/criproxyd*")):
        for name, section in re.findall(r"man:([\w.]+)\((\d)\)", read(unit)):
            page = os.path.join(STAGE, "share/man/man%s/%s.%s" % (section, name, section))
            assert os.path.exists(page), page


@pytest.mark.parametrize("path", GUIDES, ids=os.path.basename)
def test_commands_exist(path):
    """Issue 8: units, and options of our own programs."""
    text = read(path)
    for unit in re.findall(r"\bcriproxyd[a-z-]*\.(?:service|socket)\b", text):
        assert os.path.exists(os.path.join(STAGE, "lib/systemd/system", unit)), unit
    helps = {}
    for program, words in re.findall(r"\b(criproxyd|criproxyctl|coapbench)((?: +[a-z-]+)+)", text):
        folder = "sbin" if program == "criproxyd" else "bin"
        command = words.split()[0]
        if command.startswith("-") or program == "criproxyctl":
            if program not in helps:
                helps[program] = subprocess.run(
                    [os.path.join(STAGE, folder, program), "--help"], stdout=subprocess.PIPE,
                    text=True, timeout=TIMEOUT_S, check=True).stdout
            assert re.search(r"(^|[ ,])%s\b" % re.escape(command), helps[program], re.M), words
