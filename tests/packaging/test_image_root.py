# SPDX-License-Identifier: BSD-2-Clause
"""packaging/image/make-root: criproxyd serves from a root with its libraries and nothing else, as
the image's user, where nothing can be written."""

import os
import re
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/system"))

from coap_wire import Client # noqa: E402

STAGE = os.environ["CRI_STAGE"]
MAKE_ROOT = os.path.join(ROOT, "packaging/image/make-root")
TIMEOUT_S = 120
BYTES_MAX = 15 << 20
CONTROL = "admin.socket=/run/criproxy/control"

# As an engine does it: the root bound read-only, a volume, the user, and no privileges to be had.
IN_CONTAINER = """
root=$1 volume=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,ro,bind "$root"
mount -t proc proc "$root/proc"
mount --bind "$volume" "$root/run/criproxy"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin setpriv --no-new-privs \
    chroot --userspec=5683:5683 --groups= "$root" "$@"
"""
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]


def has_namespaces():
    return os.getuid() == 0 and subprocess.run(
        [*UNSHARE, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not has_namespaces(), reason="not root, or no namespaces to be had")


@pytest.fixture(scope="module", name="tree")
def fixture_tree(tmp_path_factory):
    """What is installed, at the places of the package, and the root that is made of it."""
    folder = tmp_path_factory.mktemp("image")
    for part, name in (("usr/sbin", "sbin/criproxyd"), ("usr/bin", "bin/criproxyctl")):
        os.makedirs(folder / "installed" / part)
        shutil.copy(os.path.join(STAGE, name), folder / "installed" / part)
        subprocess.run(["strip", str(folder / "installed" / part / os.path.basename(name))], check=True)
    os.makedirs(folder / "installed/usr/lib")
    libraries = os.environ["LD_LIBRARY_PATH"].split(":")[0]
    shutil.copy(os.path.join(libraries, "libcri.so.0"), folder / "installed/usr/lib/libcri.so.0")
    os.makedirs(folder / "installed/etc/criproxy")
    shutil.copy(os.path.join(ROOT, "conf/criproxyd.conf"), folder / "installed/etc/criproxy")
    done = subprocess.run([MAKE_ROOT, str(folder / "root"), str(folder / "installed")],
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
                          env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    # Users other than root are to come as far as the root.
    for at in (folder, *folder.parents[:2]):
        os.chmod(at, 0o755)
    volume = folder / "volume"
    volume.mkdir(mode=0o750)
    os.chown(volume, 5683, 5683)
    return folder


def command(tree, *words):
    return [*UNSHARE, "sh", "-euc", IN_CONTAINER, "sh", str(tree / "root"), str(tree / "volume"), *words]


def run(tree, *words):
    return subprocess.run(command(tree, *words), capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, check=False)


def run_beside(process, *words):
    """In the root and among the processes of another, with what is mounted there, as an engine's
    exec does. Not by its namespace of mounts: that leaves the root in which these tests may run."""
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        first = file.read().split()[0]
    return subprocess.run(
        ["nsenter", "--target", first, "--pid",
         "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "setpriv", "--no-new-privs", "chroot",
         "--userspec=5683:5683", "--groups=", "/proc/%s/root" % first, *words],
        capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, check=False)


@pytest.fixture(name="proxy")
def fixture_proxy(tree):
    """A criproxyd that runs in it, and its port."""
    process = subprocess.Popen(
        command(tree, "criproxyd", "-c", "/etc/criproxy/criproxyd.conf", "--set", CONTROL,
                "--listen", "coap://127.0.0.1:0"),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    log = []
    for line in process.stderr:
        log.append(line)
        if " ready " in line:
            break
    try:
        assert log and " ready " in log[-1], log
        yield process, int(re.search(r" uri=coap://127\.0\.0\.1:(\d+)", "".join(log))[1])
    finally:
        process.kill() # with it goes the namespace, and criproxyd
        process.stderr.close()
        process.wait()


def test_it_serves_and_is_healthy(tree, proxy):
    """Issue 16: the health check of the image needs no shell, and tells a proxy that does not run."""
    process, port = proxy
    healthy = run_beside(process, "criproxyctl", "status")
    assert healthy.returncode == 0, healthy.stderr
    with Client(("127.0.0.1", port)) as client:
        assert client.ask([(235, b"\xff")]).code_text == "4.02"
    os.rename(tree / "volume/control", tree / "volume/elsewhere")
    assert run_beside(process, "criproxyctl", "status").returncode != 0


def test_nothing_can_be_written(tree):
    """Issue 16: neither its root, nor as root."""
    done = run(tree, "criproxyd", "--set", "log.file=/etc/criproxy/log",
               "--listen", "coap://127.0.0.1:0")
    assert done.returncode == 1 and "key=log.file" in done.stderr, done.stderr
    assert os.listdir(tree / "root/etc/criproxy") == ["criproxyd.conf"]


def test_it_knows_the_certificates_of_the_system(tree):
    """Issue 16: OpenSSL finds the file of certificates where it looks for it."""
    names = subprocess.run(["openssl", "version", "-d"], capture_output=True, text=True, check=True)
    folder = re.search(r'"(.*)"', names.stdout)[1]
    with open(str(tree / "root") + folder + "/cert.pem", encoding="ascii") as file:
        assert "-----BEGIN CERTIFICATE-----" in file.read()


def test_there_is_nothing_else(tree):
    """Issue 16: below 15 MiB, without what a sanitizer adds; libraries, and two programs."""
    files = [os.path.join(at, name) for at, _, names in os.walk(tree / "root") for name in names]
    programs = [path for path in files if not os.path.islink(path) and os.access(path, os.X_OK)
                and ".so." not in path]
    assert sorted(os.path.basename(path) for path in programs) == ["criproxyctl", "criproxyd"]
    sizes = sum(os.lstat(path).st_size for path in files)
    if not any("libasan" in path or "libtsan" in path for path in files):
        assert sizes < BYTES_MAX, sizes
