# SPDX-License-Identifier: BSD-2-Clause
"""The units as they are installed: systemd takes them without a word, and counts the
service as well shut in. That they work is for tests/packaging/run, which boots them."""

import configparser
import glob
import os
import re
import shutil
import subprocess

import pytest

STAGE = os.environ["CRI_STAGE"]
UNITS = os.path.join(STAGE, "lib/systemd/system")
MOST_EXPOSED = 15  # tenths of systemd's scale, on which 100 is bare
TIMEOUT_S = 120

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


def names():
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(UNITS, "criproxyd*")))


def parse(name):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read(os.path.join(UNITS, name))
    return parser


@pytest.fixture(name="units")
def staged_units(tmp_path):
    """Copies whose paths lead into the stage, where the programs lie."""
    prefix = os.environ["CRI_PREFIX"].rstrip("/")
    for name in names():
        with open(os.path.join(UNITS, name), encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?<=[= ])%s/" % re.escape(prefix), STAGE + "/", text)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def analyze(*arguments):
    return subprocess.run(
        ["systemd-analyze", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=TIMEOUT_S, check=False)


def test_what_there_is():
    """Issue 8: a service and its sockets."""
    assert names() == ["criproxyd-coaps.socket", "criproxyd-tcp.socket", "criproxyd-tls.socket",
                       "criproxyd.service", "criproxyd.socket"]


def test_buffers_fit_the_limits():
    """Issue 8: the kernel's limits that the package sets have room for the largest default."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "daemon/conf/sizes.def"), encoding="utf-8") as file:
        sizes = re.search(r"SIZED\(listen, +buffer_bytes, .*\)", file.read())[0]
    most = max(int(size) for size in re.findall(r'"(\d+)MiB"', sizes)) << 20
    with open(os.path.join(STAGE, "lib/sysctl.d/50-criproxyd.conf"), encoding="utf-8") as file:
        limits = dict(re.findall(r"^(\S+) = (\d+)$", file.read(), re.M))
    assert set(limits) == {"net.core.rmem_max", "net.core.wmem_max"}
    assert all(int(limit) >= most for limit in limits.values())


@needs_analyze
def test_verify_is_clean(units):
    """Issue 8: systemd-analyze verify says nothing."""
    done = analyze("verify", "--man=no", *(str(units / name) for name in names()))
    assert (done.returncode, done.stdout) == (0, "")


@needs_analyze
def test_verify_can_complain(units):
    unit = units / "criproxyd.service"
    unit.write_text(unit.read_text().replace("UMask=", "UMsk="))
    assert "UMsk" in analyze("verify", "--man=no", str(unit)).stdout


@needs_analyze
def test_security_score(units):
    """Issue 8: systemd-analyze security gives at most 1.5."""
    unit = str(units / "criproxyd.service")
    command = ["security", "--offline=true", "--no-pager"]
    done = analyze(*command, "--threshold=%d" % MOST_EXPOSED, unit)
    assert done.returncode == 0, done.stdout
    score = re.search(r"exposure level for criproxyd.service: (\d+\.\d)", done.stdout)
    assert score and float(score[1]) * 10 <= MOST_EXPOSED, done.stdout
    assert analyze(*command, "--threshold=5", unit).returncode != 0


def test_sockets_have_the_schemes_as_names():
    """The daemon tells by the name what is spoken on a socket."""
    found = {}
    for name in names():
        if name.endswith(".socket"):
            socket = parse(name)["Socket"]
            assert socket["Service"] == "criproxyd.service"
            kind = "datagram" if "ListenDatagram" in socket else "stream"
            found[socket["FileDescriptorName"]] = kind
    assert found == {"coap": "datagram", "coaps": "datagram",
                     "coap+tcp": "stream", "coaps+tcp": "stream"}


def test_the_service_tells_of_mistakes_and_runs_as_nobody_else():
    """A bad configuration does not restart for ever, which ExecStartPre= would do; a
    reload that was refused fails; the type is the same wherever the unit was made."""
    service = parse("criproxyd.service")["Service"]
    assert service["Type"] == "notify"
    assert "ExecStartPre" not in service and service["RestartPreventExitStatus"] == "2"
    control = re.search(r"--set admin.socket=(\S+)", service["ExecStart"])[1]
    prefix = os.environ["CRI_PREFIX"].rstrip("/")
    assert service["ExecReload"] == "%s/bin/criproxyctl -s %s reload" % (prefix, control)
    assert service["SyslogLevel"] == "err"
    assert service["User"] == "criproxy"
    assert service["WatchdogSec"]
    with open(os.path.join(STAGE, "lib/sysusers.d/criproxyd.conf"), encoding="utf-8") as file:
        assert re.search(r"^u criproxy ", file.read(), re.MULTILINE)


def readable_paths():
    """What criproxyd may read by its AppArmor profile, as regular expressions."""
    with open(os.path.join(STAGE, "etc/apparmor.d/usr.sbin.criproxyd"), encoding="utf-8") as file:
        rules = re.findall(r"^  (/\S+) r\w*,$", file.read(), re.MULTILINE)
    return [re.escape(rule).replace(r"\*\*", ".+").replace(r"\*", "[^/]+") for rule in rules]


def test_recordings_may_be_read_where_the_documents_have_them():
    """Issue 19: the profile lets the proxy read the paths of docs/RECORDINGS.md, and the service
    hides none of them, nor does the document promise what the service hides."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs/RECORDINGS.md"), encoding="utf-8") as file:
        text = file.read()
    service = parse("criproxyd.service")["Service"]
    hidden = {"ProtectHome": "/home", "PrivateTmp": "/tmp"}
    assert all(service[key] == "yes" and "no: `%s`" % key in text for key in hidden)
    assert service["ProtectSystem"] == "strict", "read-only, and all of it"
    assert "InaccessiblePaths" not in service and "TemporaryFileSystem" not in service
    paths = re.findall(r"recording:(/\S+)", text)
    assert paths
    allowed = [rule.replace(re.escape(os.environ["CRI_SYSCONFDIR"]), "/etc")
               for rule in readable_paths()]
    for path in paths:
        assert any(re.fullmatch(rule, path) for rule in allowed), (path, allowed)
        assert not path.startswith(tuple(hidden.values()))
    assert not any(re.fullmatch(rule, "/srv/lab/x.recording") for rule in allowed)


def test_the_profile_has_the_directories_of_the_service():
    """Issue 8: what systemd makes for the daemon to write in, the profile lets it write in; files of
    OSCORE's sequence numbers are locked, too."""
    service = parse("criproxyd.service")["Service"]
    with open(os.path.join(STAGE, "etc/apparmor.d/usr.sbin.criproxyd"), encoding="utf-8") as file:
        rules = re.findall(r"^  owner (/\S+) (\w+),$", file.read(), re.MULTILINE)
    for key, base, rights in (("RuntimeDirectory", "/run", "w"), ("LogsDirectory", "/var/log", "w"),
                              ("StateDirectory", "/var/lib", "rwk")):
        below = "%s/%s/" % (base, service[key])
        assert any(path.startswith(below + "*") and set(rights) <= set(given)
                   for path, given in rules), below


@pytest.mark.skipif(shutil.which("apparmor_parser") is None, reason="no apparmor_parser here")
def test_apparmor_profile_parses():
    """Issue 8: the profile, with what it includes; and without a brace it does not."""
    with open(os.path.join(STAGE, "etc/apparmor.d/usr.sbin.criproxyd"), encoding="utf-8") as file:
        profile = file.read()
    command = ["apparmor_parser", "--skip-kernel-load", "--skip-cache"]
    for text, wanted in ((profile, 0), (profile.rstrip().rstrip("}"), 1)):
        done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
        assert (done.returncode != 0) == (wanted != 0), done.stdout
