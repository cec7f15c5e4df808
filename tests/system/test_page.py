# SPDX-License-Identifier: BSD-2-Clause
"""The page of admin.listen, in headless Chromium (Debian's chromium and chromium-driver): what a
person sees of a running proxy and does with it, and that nothing but the proxy is asked."""

import json
import os
import re
import shutil
import subprocess

import pytest

from admin_wire import http, http_place
from browser import Browser
from coap_wire import PATIENCE_S, Origin
from ports import free_port
from processes import ROOT, program, wait_until
from target import Target

FOLDER = os.path.join(ROOT, "daemon", "server", "page")
HTTP = ("--set", "admin.listen=http://127.0.0.1:0")
PAGE = HTTP  # on a loopback address it is there
FILES = {"/": ("index.html", "text/html"), "/page.css": ("page.css", "text/css"),
         "/page.js": ("page.js", "text/javascript"), "/views.js": ("views.js", "text/javascript")}

missing = [tool for tool in ("chromium", "chromedriver") if not shutil.which(tool)]
needs_browser = pytest.mark.skipif(bool(missing), reason="not here: " + ", ".join(missing))


def source(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


# ---- what is served ----

def test_files_of_the_page(start_proxy):
    """Issue 19, page: as they are in the source, under a policy that allows nothing from elsewhere;
    only to be read; metrics and health are as they were."""
    place = http_place(start_proxy(*PAGE, listen=("127.0.0.1",)))
    for path, (name, kind) in FILES.items():
        status, fields, body = http(place, path)
        assert (status, body) == (200, source(name))
        assert fields["Content-Type"] == kind + "; charset=utf-8"
        policy = dict(part.split(" ", 1) for part in fields["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert (fields["X-Content-Type-Options"], fields["Cache-Control"]) == ("nosniff", "no-store")
        status, fields, body = http(place, path, method="HEAD")
        assert (status, body) == (200, "")
        assert int(fields["Content-Length"]) == len(source(name).encode())
        assert http(place, path, method="DELETE")[0] == 405
    assert http(place, "/?x=1")[0] == 200
    for path in ("/page", "/page.js/", "//", "/../page.js", "/index.html", "/favicon.ico"):
        assert http(place, path)[0] == 404, path
    assert http(place, "/healthz")[::2] == (200, "ok\n")
    assert "Content-Security-Policy" not in http(place, "/metrics")[1]


def test_the_page_can_be_turned_off(start_proxy, tmp_path):
    """Issue 19, page: it is on by default; a reload turns it off and on."""
    file = tmp_path / "page.conf"
    text = "[listen]\nuri = coap://127.0.0.1:0\n[admin]\nlisten = http://127.0.0.1:0\n"
    file.write_text(text)
    running = start_proxy("-c", str(file), listen=())
    place = http_place(running)
    for is_on in (True, False, True):
        file.write_text(text + ("" if is_on else "page = no\n"))
        running.reload(line=r"^reloaded$")
        for path in (*FILES, "/api/version"):
            assert http(place, path)[0] == (200 if is_on else 404)


def test_the_page_has_no_way_for_text_to_become_code():
    """Issue 19, page: no HTML from text, no inline script or style, no address of elsewhere."""
    script = source("page.js") + source("views.js")
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|"
                          r"\.style\b|import\b|postMessage|localStorage|cookie", script)
    assert re.findall(r"\bfetch\(\"?([^\",]*)", script) == ["metrics", "where"]
    assert re.findall(r"new EventSource\((\w+)\(", script) == ["address"]
    assert re.findall(r"\blines\((\w+)\(", script) == ["address"] * 4
    assert re.search(r'function address\(.*?return "api/" \+', script, re.S)
    page = source("index.html")
    assert not re.findall(r"\bstyle=|\bon\w+=|<style|<script>", page)
    assert {link for link in re.findall(r"(?:src|href)=\"([^\"]*)\"", page) if link[0] != "#"} == {
        "data:,", "metrics", "page.css", "page.js", "views.js"}
    hosts = [host for name, _ in FILES.values() for host in re.findall(r"//[\w.]+", source(name))]
    assert set(hosts) <= {"//www.w3.org"}  # the name of SVG's elements


# ---- what is seen ----

@pytest.fixture(name="browser", scope="module")
def own_browser(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        running = Browser()
    yield running
    running.close()


class Seen:
    """The page of a proxy, as an operator in front of it sees it."""

    def __init__(self, browser, proxy):
        self.browser, self.url = browser, "http://%s:%d/" % http_place(proxy)
        browser.resize(1280, 900)
        browser.complaints()
        browser.open(self.url)
        browser.run("const field = document.getElementById('interval'); field.value = '1';"
                    "field.dispatchEvent(new Event('change'))")

    def text(self, element):
        return self.browser.run("return document.getElementById('%s').textContent" % element)

    def rows(self, table):
        """The texts of the cells of each row."""
        return self.browser.run(
            "return [...document.getElementById('%s').tBodies[0].rows].map("
            "(row) => [...row.cells].map((cell) => cell.textContent))" % table)

    def row(self, table, first):
        return next((row for row in self.rows(table) if row[0] == first), None)

    def wait(self, condition):
        wait_until(condition, lambda: "%s\n%s" % (self.rows("reasons"), self.text("about")),
                   4 * PATIENCE_S)

    def wait_for(self, table, first, column, text):
        """A cell; each figure by itself, because a worker may be counting as it is asked."""
        self.wait(lambda: (self.row(table, first) or [""] * 6)[column] == text)

    def wait_for_count(self, reason, count):
        self.wait_for("reasons", reason, 3, str(count))

    def click(self, element):
        self.browser.run("document.getElementById('%s').click()" % element)

    def type(self, element, text):
        self.browser.run("const field = document.getElementById('%s'); field.value = '%s';"
                         "field.dispatchEvent(new Event('input'))" % (element, text))


def ask_both(proxy, origin, count):
    """Requests that are answered, and half as many that are refused."""
    with proxy.client() as client:
        for number in range(count):
            target = Target("127.0.0.1", origin.port, ("x",)).options("cri")
            assert client.ask(target).code_text == "2.05"
            if number % 2 == 1:
                assert client.ask([(235, b"\xff")]).code_text == "4.02"


@needs_browser
def test_what_a_person_sees(start_proxy, browser):
    """Issue 19, page: reasons, origin servers, routes and transports with their figures; a filter;
    pause, and going on; the proxy is gone. Nothing else is asked, and the console is empty."""
    with Origin() as origin:
        proxy = start_proxy(*PAGE, "--set", "route lab.target=coap://127.0.0.1:%d" % origin.port,
                            "--set", "route lab.via=direct", listen=("127.0.0.1",))
        seen = Seen(browser, proxy)
        ask_both(proxy, origin, 20)
        seen.wait_for_count("answered", 20)
        seen.wait_for_count("cri_malformed", 10)
        assert seen.row("reasons", "cri_malformed")[1] == "client"
        address = "127.0.0.1:%d" % origin.port
        seen.wait_for("origins", address, 5, "20")
        server = seen.row("origins", address)
        assert server[1] == "udp" and re.search(r"\d m?s$|–", server[3])
        seen.wait_for("routes", "lab", 4, "20")
        seen.wait_for("fronts", "coap", 4, "20")
        assert re.search(r", ready, running for \d+ (s|min)", seen.text("about"))
        assert browser.run("return document.querySelectorAll('#chart-ends polygon').length") == 5
        assert seen.text("text-ends").startswith("Now ")

        seen.type("filter", "messages_malformed")
        assert seen.text("count") == "0 shown" and seen.rows("counters") == [["None."]]
        seen.click("zeros")
        assert [row[:2] for row in seen.rows("counters")] == [["messages_malformed_total", "0"]]
        seen.type("filter", "requests_total")
        seen.wait_for("counters", "requests_total", 1, "30")

        seen.click("pause")
        before = seen.rows("reasons")
        assert seen.text("about").endswith("; paused")
        ask_both(proxy, origin, 2)
        assert seen.rows("reasons") == before
        seen.click("pause")
        seen.wait_for_count("answered", 22)

        asked = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
        assert {url.split("?")[0] for url in asked} == {
            seen.url + name for name in ("page.css", "page.js", "views.js", "metrics", "api/config")}
        assert browser.complaints() == []
        proxy.stop_cleanly()
        seen.wait(lambda: seen.text("about").startswith("No answer from the proxy since "))


@needs_browser
@pytest.mark.skipif("PAGE_PICTURES" not in os.environ, reason="PAGE_PICTURES is not set")
def test_the_picture_of_the_guide(start_proxy, browser):
    """Issue 19, guide: its lab-page.png, 80 seconds with 300 requests a second, and for some of them
    200 more, which no origin server answers."""
    coapbench = program("coapbench")
    servers = [subprocess.Popen([coapbench, "origin", "--delay", "4ms", "--jitter", "16ms"],
                                stdout=subprocess.PIPE, text=True)]
    try:
        origin = re.search(r"127\.0\.0\.1:\d+", servers[0].stdout.readline())[0]
        proxy = start_proxy(*PAGE, "--set", "cache.max-bytes=0", "--set", "policy.ports=any",
                            "--set", "route lab.target=coap://127.0.0.1", "--set",
                            "route lab.via=direct", "--set", "proxy.workers=2", listen=("127.0.0.1",))

        def load(target, rate, seconds):
            servers.append(subprocess.Popen(
                [coapbench, "load", "--proxy", "%s:%d" % proxy.address(), "--target", target, "--rate",
                 str(rate), "--time", "%ds" % seconds, "--warmup", "0s", "--clients", "16"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def has(count):
            return lambda: int((seen.row("reasons", "answered") or ["0"] * 4)[3].replace(",", "")) >= count

        seen = Seen(browser, proxy)
        load(origin, 300, 100)
        wait_until(has(300 * 40), patience_s=120)
        load("127.0.0.1:%d" % free_port(), 200, 12)
        wait_until(has(300 * 80), patience_s=120)
        browser.resize(1280, 800)
        seen.wait(lambda: browser.run("const svg = document.getElementById('chart-ends');"
                                      "return svg.viewBox.baseVal.width === svg.clientWidth"))
        browser.screenshot(os.path.join(os.environ["PAGE_PICTURES"], "lab-page.png"))
    finally:
        for server in servers:
            server.kill()
            server.wait()


@needs_browser
def test_text_stays_text(start_proxy, browser):
    """Issue 19, page: markup in a label is shown as it is, and runs nothing; escapes are undone."""
    seen = Seen(browser, start_proxy(*PAGE, listen=("127.0.0.1",)))
    markup = "<img/src=x\tonerror='window.ran=1'>\"\\"
    label = markup.replace("\\", "\\\\").replace('"', '\\"')
    sample = 'criproxyd_origin_duration_seconds_count{origin="%s",upstream="udp"} ' % label
    browser.run("let count = 0; window.fetch = async () => new Response(%s + (++count) + '\\n')"
                % json.dumps(sample))
    seen.wait(lambda: (seen.rows("origins") or [[""]])[0][0] == markup)
    assert browser.run("return [document.images.length, window.ran === undefined]") == [0, True]


@needs_browser
@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_it_fits_any_screen(start_proxy, browser, width, tmp_path):
    """Issue 19, page: nothing is wider than the screen, dark or light; the charts are drawn to it;
    each field and table has a name."""
    with Origin() as origin:
        proxy = start_proxy(*PAGE, listen=("127.0.0.1",))
        seen = Seen(browser, proxy)
        ask_both(proxy, origin, 10)
        seen.wait_for_count("answered", 10)
        for is_dark in (False, True):
            browser.resize(width, 900, is_dark)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            seen.wait(lambda: browser.run(
                "const svg = document.getElementById('chart-ends');"
                "return svg.viewBox.baseVal.width === svg.clientWidth && svg.clientWidth > 200"))
            path = os.path.join(os.environ.get("PAGE_PICTURES", str(tmp_path)),
                                "page-%d-%s.png" % (width, "dark" if is_dark else "light"))
            browser.screenshot(path, whole=True)
            with open(path, "rb") as file:
                assert file.read(4) == b"\x89PNG"
        back = "return getComputedStyle(document.body).backgroundColor"
        dark = browser.run(back)
        browser.resize(width, 900)
        assert browser.run(back) != dark
        tree = browser.devtools("Accessibility.getFullAXTree")["nodes"]
        for node in tree:
            role = node.get("role", {}).get("value")
            if not node.get("ignored") and role in ("button", "searchbox", "checkbox", "combobox",
                                                    "region", "image", "meter"):
                assert node["name"]["value"], node
