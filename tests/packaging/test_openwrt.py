# SPDX-License-Identifier: BSD-2-Clause
"""packaging/openwrt and packaging/alpine, as far as they can be tried without an SDK: their files are
read by make and sh with stand-ins for the systems' own, and criproxyd takes what UCI becomes."""

import os
import re
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CRIPROXYD = os.path.join(os.environ["CRI_STAGE"], "sbin/criproxyd")
OPENWRT = os.path.join(ROOT, "packaging/openwrt")
FILES = os.path.join(OPENWRT, "files")
ALPINE = os.path.join(ROOT, "packaging/alpine")
TIMEOUT_S = 120

# What /lib/functions.sh does with a configuration: its lines are commands that call the callbacks;
# a list is told item by item, and its length and items once more as options.
FUNCTIONS = r"""
config() { config_cb "$1" "${2:-cfg0123ab}"; }
option() { option_cb "$1" "$2"; }
list() { list_cb "$1" "$2"; option_cb "$1_ITEM1" "$2"; option_cb "$1_LENGTH" 1; }
config_load() { . "$UCI/$1"; config_cb; }
config_get_bool() { eval "$1=\${ENABLED:-$4}"; }
"""

# What procd's part of rc.common is told.
PROCD = r"""
procd_open_instance() { echo open; }
procd_set_param() { echo "$*"; }
procd_close_instance() { echo close; }
procd_send_signal() { echo "signal $*"; }
procd_add_reload_trigger() { echo "trigger $*"; }
chown() { :; }
"""


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def run(*command, **environment):
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env={**os.environ, **environment})


def from_uci(tmp_path, text):
    (tmp_path / "functions.sh").write_text(FUNCTIONS)
    (tmp_path / "criproxyd").write_text(text)
    return run("sh", os.path.join(FILES, "criproxyd-uci"), UCI=str(tmp_path),
               CRIPROXYD_FUNCTIONS=str(tmp_path / "functions.sh"))


def check(tmp_path, text):
    file = tmp_path / "criproxyd.conf"
    file.write_text(text)
    return run(CRIPROXYD, "-c", str(file), "--check-config")


def test_the_installed_configuration_is_taken(tmp_path):
    made = from_uci(tmp_path, read("packaging/openwrt/files/criproxyd.config"))
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout == ("[proxy]\nworkers = 1\nsize = small\n[listen]\n"
                           "uri = coap://127.0.0.1:5683\nuri = coap://[::1]:5683\n")
    assert check(tmp_path, made.stdout).returncode == 0


def test_named_sections_and_lists_become_those_of_the_daemon(tmp_path):
    made = from_uci(tmp_path, """
config route 'outside'
    list target '*://*'
    option via 'coap://192.0.2.1'
    option form 'proxy-uri'
config cache
    option max_bytes '1MiB'
    option stale_if_error '24h'
""")
    assert made.stdout == ("[route outside]\ntarget = *://*\nvia = coap://192.0.2.1\nform = proxy-uri\n"
                           "[cache]\nmax-bytes = 1MiB\nstale-if-error = 24h\n")
    shown = check(tmp_path, made.stdout)
    assert shown.returncode == 0, shown.stderr


@pytest.mark.parametrize("value", ("a\nworkers = 1", "a ; b", "a\t# b", " a", "a "))
def test_values_that_a_line_cannot_hold_are_refused(tmp_path, value):
    made = from_uci(tmp_path, "config proxy\noption name '%s'\n" % value)
    assert made.returncode == 1
    assert "option name" in made.stderr and "name" not in made.stdout


def init(tmp_path, action, enabled="1", good=True):
    """The init script's function, with a criproxyd and a criproxyd-uci that say what they are told."""
    script = read("packaging/openwrt/files/criproxyd.init").replace("/usr/libexec/criproxyd-uci", "uci")
    script = script.replace("/var/etc", str(tmp_path / "etc")).replace("/var/run", str(tmp_path / "run"))
    script = script.replace("PROG=/usr/sbin/criproxyd", "PROG=%s" % ("true" if good else "false"))
    (tmp_path / "criproxyd").write_text("")
    file = tmp_path / "init"
    file.write_text(FUNCTIONS + "config_cb() { :; }\nuci() { echo '[proxy]'; }\n" + PROCD +
                    script.split("\n", 1)[1] + "\n" + action + "\n")
    return run("sh", str(file), UCI=str(tmp_path), ENABLED=enabled)


def test_the_service_starts_as_its_user(tmp_path):
    started = init(tmp_path, "start_service")
    assert started.returncode == 0, started.stderr
    lines = started.stdout.splitlines()
    assert lines[0] == "open" and lines[-1] == "close"
    assert "user criproxy" in lines and "respawn" in lines and "stderr 1" in lines
    command = [line for line in lines if line.startswith("command ")]
    assert command == ["command true -c %s/etc/criproxyd.conf --set admin.socket=%s/run/criproxy/control"
                       % (tmp_path, tmp_path)]
    file = tmp_path / "etc/criproxyd.conf"
    assert file.read_text() == "[proxy]\n" and file.stat().st_mode & 0o777 == 0o600
    assert init(tmp_path, "start_service", enabled="0").stdout == ""


def test_a_configuration_that_is_refused_changes_nothing(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/criproxyd.conf").write_text("before\n")
    for action in ("start_service", "reload_service"):
        done = init(tmp_path, action, good=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert (tmp_path / "etc/criproxyd.conf").read_text() == "before\n"
    assert init(tmp_path, "reload_service").stdout == "signal criproxyd * HUP\n"


# By the name in the program's dynamic section, OpenWrt's package; libc is of the system.
PACKAGES = {"cri": "libcri", "utf8proc": "libutf8proc", "idn2": "libidn2", "inih": "libinih",
            "cares": "libcares", "ssl": "libopenssl", "crypto": "libopenssl",
            "event": "libevent2", "event_core": "libevent2-core", "event_extra": "libevent2-extra",
            "event_pthreads": "libevent2-pthreads", "event_openssl": "libevent2-openssl",
            "coap": None, "hiredis": None, "wslay": None, "http_parser": None, "curl": None, "asan": None, "ubsan": None, "tsan": None, "c": None,
            "gcc_s": None, "m": None}


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("readelf") is None,
                    reason="no make, or no readelf")
def test_the_makefile_has_the_libraries_of_the_build(tmp_path):
    (tmp_path / "rules.mk").write_text("")
    for name in ("package.mk", "cmake.mk"):
        (tmp_path / name).write_text("")
    (tmp_path / "package.mk").write_text(
        "define BuildPackage\n$(info $(1): $(strip $(foreach line,$(Package/$(1)),$(line))))\nendef\n")
    made = run("make", "-f", os.path.join(OPENWRT, "Makefile"), "-C", OPENWRT, "-n", "nothing",
               "TOPDIR=%s" % tmp_path, "INCLUDE_DIR=%s" % tmp_path)
    shown = dict(line.split(": ", 1) for line in made.stdout.splitlines() if ": " in line)
    assert {"libcri", "criproxyd"} <= set(shown), made.stderr
    wanted = set(re.findall(r"\+(?:\w+:)?([\w-]+)", shown["criproxyd"]))
    needed = run("readelf", "--dynamic", CRIPROXYD).stdout
    linked = {re.sub(r"-[\d.]+$", "", name) for name in
              re.findall(r"\(NEEDED\).*\[lib([\w.-]+?)(?:-3-openssl)?\.so", needed)}
    assert linked <= set(PACKAGES), "which package has %s?" % (linked - set(PACKAGES))
    missing = {PACKAGES[name] for name in linked if PACKAGES[name]} - wanted
    assert not missing, missing
    # Processors that have no 64-bit atomics of their own link it; OpenWrt's libraries are one for all.
    assert "libatomic" in wanted


def test_both_packages_are_of_this_version_and_its_options():
    version = re.search(r"project\(criproxy VERSION ([\d.]+)", read("CMakeLists.txt"))[1]
    assert "PKG_VERSION:=%s\n" % version in read("packaging/openwrt/Makefile")
    apkbuild = run("sh", "-euc", '. "$0"; echo "$pkgver"; type build package tools libs',
                   os.path.join(ALPINE, "APKBUILD"))
    assert apkbuild.returncode == 0, apkbuild.stderr
    assert apkbuild.stdout.startswith(version + "\n")
    options = set(re.findall(r"-D(CRI_\w+)=", read("packaging/openwrt/Makefile") +
                             read("packaging/alpine/APKBUILD")))
    known = set(re.findall(r"^option\((CRI_\w+)", read("CMakeLists.txt"), re.M))
    assert options and options <= known, options - known


@pytest.mark.parametrize("file", ("criproxyd.initd", "criproxy.pre-install"))
def test_scripts_of_alpine_are_shell(file):
    assert run("sh", "-n", os.path.join(ALPINE, file)).returncode == 0
