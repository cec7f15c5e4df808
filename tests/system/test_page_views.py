# SPDX-License-Identifier: BSD-2-Clause
"""The views of the page of admin.listen in headless Chromium: what a person does with a running
proxy. PAGE_PICTURES=FOLDER keeps pictures."""

import json
import os

import pytest

from admin_wire import http, http_place
from browser import Browser
from coap_wire import NON, PATIENCE_S, Message, Origin, code
from processes import wait_until
from target import Target
from test_page import needs_browser

HTTP = ("--set", "admin.listen=http://127.0.0.1:0")
OBSERVE = 6


@pytest.fixture(name="browser", scope="module")
def own_browser(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        running = Browser()
    yield running
    running.close()


class View:
    """One view of the page, and what a person does there, with the keyboard where it matters."""

    def __init__(self, browser, proxy, name, width=1280):
        self.browser, self.place = browser, http_place(proxy)
        browser.resize(width, 900)
        browser.complaints()
        browser.open("http://%s:%d/#%s" % (*self.place, name))
        browser.run("const field = document.getElementById('interval'); field.value = '1';"
                    "field.dispatchEvent(new Event('change'))")

    def get(self, expression):
        return self.browser.run("return " + expression)

    def text(self, element):
        return self.get("document.getElementById('%s').textContent" % element)

    def set(self, **values):
        for key, value in values.items():
            self.browser.run("document.getElementById(%s).value = %s" % (
                json.dumps(key.replace("_", "-")), json.dumps(value)))

    def submit(self, form):
        self.browser.run("document.getElementById('%s').requestSubmit()" % form)

    def click(self, selector):
        self.browser.run("document.querySelector(%s).click()" % json.dumps(selector))

    def rows(self, table):
        rows = self.get("[...document.getElementById('%s').tBodies[0].rows].map("
                        "(row) => [...row.cells].map((cell) => cell.textContent))" % table)
        return [row + [""] * (16 - len(row)) for row in rows or [[]]]  # [[]]: before an answer

    def traced(self):
        """The cells of each traced request, the newest first."""
        return self.get("[...document.querySelectorAll('#trace-list .row')].map("
                        "(row) => [...row.children].map((cell) => cell.textContent))")

    def wait(self, condition):
        wait_until(condition, lambda: self.get("document.getElementById('main').innerText"),
                   2 * PATIENCE_S)

    def picture(self, name, whole=True):
        folder = os.environ.get("PAGE_PICTURES")
        if folder:
            self.browser.screenshot(os.path.join(folder, name + ".png"), whole)

    def is_clean(self):
        """Nothing is wider than the screen, and the console has nothing but refused requests."""
        wide = self.get("document.documentElement.scrollWidth - innerWidth")
        said = [text for text in self.browser.complaints() if "Failed to load resource" not in text]
        return wide <= 0 and not said


@needs_browser
def test_a_trace_is_filtered_paused_and_unfolded(start_proxy, browser):
    """Issue 19, page: requests as they end; a filter; pause, and going on; one unfolds into its CRI,
    options, rule and times; a filter that is none is said."""
    with Origin() as origin:
        proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
        view = View(browser, proxy, "trace")
        base = "coap://127.0.0.1:%d" % origin.port
        wanted, other = (Target("127.0.0.1", origin.port, (name,)) for name in ("temp", "other"))
        with proxy.client() as client:
            def ask(*targets):
                for target in targets:
                    assert client.ask(target.options("cri")).code_text == "2.05"

            def shows(path):
                return any(row[3] == base + path for row in view.traced())

            view.wait(lambda: view.text("trace-state") == "All requests")
            view.wait(lambda: ask(other) or shows("/other"))
            view.set(trace_target="/temp")
            view.submit("trace-form")
            view.wait(lambda: view.text("trace-state") == "Requests with target /temp")
            view.click("#trace-clear")
            view.wait(lambda: ask(other, wanted) or shows("/temp"))
            assert {row[3] for row in view.traced()} == {base + "/temp"}
            assert view.traced()[0][4] == "2.05 answered"

            view.click("#trace-pause")
            assert view.text("trace-state") == "Paused"
            before = len(view.traced())
            ask(wanted, wanted)
            view.click("#trace-list summary")
            view.wait(lambda: view.get("document.querySelectorAll('#trace-list dl').length") == 1)
            facts = view.get("Object.fromEntries([...document.querySelectorAll('#trace-list dt')]"
                             ".map((key) => [key.textContent, key.nextSibling.textContent]))")
            assert facts["CRI"].startswith("[-1, [h'7f000001', %d]" % origin.port)
            assert facts["target"] == base + "/temp" and facts["named by"] == "Proxy-Cri"
            assert "Uri-Path" in facts["options"] and facts["rule"] == "builtin:default"
            assert " ms  " in facts["on the way"] and facts["outcome"].startswith("answered 2.05")
            assert len(view.traced()) == before
            view.picture("trace-unfolded")
            view.click("#trace-pause")
            view.wait(lambda: ask(wanted) or len(view.traced()) > before)

        view.set(trace_target="", trace_reason="nonsense")
        view.submit("trace-form")
        view.wait(lambda: "no such reason" in view.text("trace-state"))
        assert view.is_clean()


@needs_browser
def test_hostile_targets_stay_text(start_proxy, browser):
    """Issue 19, page: markup and escapes of a client's bytes are shown as they are."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    view = View(browser, proxy, "trace")
    markup = b"<img src=x onerror=window.ran=1>\x1b[2J\"'&lt;"
    with proxy.client() as client:
        def ask():
            client.ask([(3, b"h"), (11, markup), (39, b"coap")])
            return any("img" in row[3] for row in view.traced())

        view.wait(ask)
    view.browser.run("document.querySelectorAll('#trace-list summary').forEach((e) => e.click())")
    view.wait(lambda: view.get("document.querySelectorAll('#trace-list dl').length") > 0)
    assert view.get("[document.images.length, window.ran === undefined]") == [0, True]
    assert "\x1b" not in view.get("document.body.textContent")
    view.set(explain_target="coap://h/<img src=x onerror=window.ran=1>")
    view.submit("explain-form")
    view.wait(lambda: view.text("explain-answer") != "")
    assert view.get("[document.images.length, window.ran === undefined]") == [0, True]


@needs_browser
def test_explain_as_a_form(start_proxy, browser):
    """Issue 19, page: a URI and a CRI are explained; what is none is said."""
    proxy = start_proxy(*HTTP, listen=("127.0.0.1",))
    view = View(browser, proxy, "explain")
    view.set(explain_target="coap://192.0.2.1/temp?x=1", explain_client="10.1.2.3",
             explain_method="PUT")
    view.submit("explain-form")
    view.wait(lambda: "coap://192.0.2.1:5683/temp" in view.text("explain-answer"))
    assert "10.1.2.3" in view.text("explain-answer") and "outcome" in view.text("explain-answer")
    view.picture("explain")
    view.set(explain_target="8221824420010db800")
    view.submit("explain-form")
    view.wait(lambda: "192.0.2.1" not in view.text("explain-answer"))
    view.set(explain_client="nobody")
    view.submit("explain-form")
    view.wait(lambda: view.get("document.getElementById('explain-answer').className") == "bad")
    assert view.is_clean()


@needs_browser
def test_an_observation_is_followed(start_proxy, browser):
    """Issue 19, page: an observation is in the list, and each new state is told while it is
    followed."""
    def answer(request):
        options = [(OBSERVE, b"\x05")] if request.values(OBSERVE) else []
        return Message(code=code(2, 5), options=options, payload=b"state")

    with Origin(handler=answer) as origin:
        proxy = start_proxy(*HTTP, "--set", "proxy.workers=1", listen=("127.0.0.1",))
        view = View(browser, proxy, "observations")
        target = Target("127.0.0.1", origin.port, ("o",))
        uri = "coap://127.0.0.1:%d/o" % origin.port
        with proxy.client() as client:
            assert client.ask(target.options("cri") + [(OBSERVE, b"")]).code_text == "2.05"
            view.wait(lambda: view.rows("list-observations")[0][:5]
                      == [uri, "observing", "1", "1", "5"])
            view.click("#list-observations button")
            view.wait(lambda: "observing, state 1, 5 bytes" in view.text("followed-list"))
            registration = origin.requests[0]
            for number, state in ((6, b"a longer state"), (7, b"one as long as")):
                origin.send_to(0, Message(
                    type=NON, code=code(2, 5), mid=number, token=registration.token,
                    options=[(OBSERVE, bytes([number]))], payload=state).encode())
                view.wait(lambda number=number: "observing, state %d, 14 bytes" % (number - 4)
                          in view.text("followed-list"))
            check_what_is_heard(browser, "followed")
            assert any(properties.get("live") == "polite" and role == "list" and
                       name.startswith("Following ") for role, name, properties in heard(browser))
            view.picture("observation")
        view.click("#followed-stop")
        assert view.get("document.activeElement.id") == "observations-title"
        assert view.is_clean()


@needs_browser
def test_lists_and_what_may_be_changed(start_proxy, browser):
    """Issue 19, page: sessions, origin servers with their windows, the busiest; nothing to change
    unless admin.operate; with it a session is closed, and a fault added and cleared."""
    with Origin() as origin:
        proxy = start_proxy(*HTTP, "--set", "proxy.workers=1", listen=("127.0.0.1",))
        with proxy.client() as client:
            client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
            view = View(browser, proxy, "sessions")
            view.wait(lambda: view.rows("list-sessions")[0][3] == "open")
            assert view.get("document.querySelectorAll('#view-sessions button').length") == 0
            assert view.get("document.getElementById('fault-form').hidden") is True
            view.click("nav a[href='#origins']")
            view.wait(lambda: view.rows("list-origins")[0][0] == "127.0.0.1:%d" % origin.port)
            assert view.get("document.activeElement.id") == "servers-title"
            assert int(view.rows("list-origins")[0][3]) >= 1
            view.click("nav a[href='#busiest']")
            view.wait(lambda: client.ask(Target("127.0.0.1", origin.port, ("x",)).options("cri"))
                      and view.rows("list-busiest")[0][:2] == ["target", "coap://127.0.0.1:%d/x"
                                                               % origin.port])
            assert view.is_clean()

    proxy = start_proxy(*HTTP, "--set", "admin.operate=yes", "--set", "lab.enabled=yes", "--set",
                        "proxy.workers=1", listen=("127.0.0.1",))
    with proxy.client() as client:
        client.ask([(11, b"x")])
        view = View(browser, proxy, "sessions")
        view.wait(lambda: view.get("document.querySelectorAll('#list-sessions button').length") == 1)
        view.click("#list-sessions button")
        view.wait(lambda: view.text("said-sessions").startswith("Closed 127.0.0.1"))
        view.click("nav a[href='#faults']")
        view.set(fault_name="wifi", fault_keys="client=any loss=2")
        view.submit("fault-form")
        view.wait(lambda: "loss: expected" in view.text("fault-said"))
        view.set(fault_keys="client=any loss=0.5 seed=7")
        view.submit("fault-form")
        view.wait(lambda: view.rows("list-faults")[0][:2] == ["wifi", "criproxyctl"])
        view.click("#fault-clear")
        view.wait(lambda: view.rows("list-faults")[0][0] == "There is none.")
        view.click("nav a[href='#overview']")
        view.click("#drain")
        view.wait(lambda: http(view.place, "/readyz")[0] == 503)
        view.click("#undrain")
        view.wait(lambda: http(view.place, "/readyz")[0] == 200)
    assert view.is_clean()


FAKE_ROWS = """
window.fetch = async (where) => new Response(where.startsWith("api/sessions")
  ? Array.from({length: %d}, (_, i) => JSON.stringify({worker: i %% 2, scheme: "coaps",
      client: "[2001:db8:1234:5678:9abc:def0:1234:" + i.toString(16) + "]:40001",
      identity: "psk:device-" + i, state: "open", in_flight: 1, requests: 1234567, idle_s: 12,
      suite: "TLS_ECDHE_PSK_WITH_AES_128_CCM_8_SHA256"})).concat('{"end":"ok"}').join("\\n") + "\\n"
  : '{"end":"ok"}\\n', {headers: {"Content-Type": "application/x-ndjson"}});
"""


@needs_browser
@pytest.mark.parametrize("count", [1, 1000, 1500])
def test_one_row_and_a_thousand(start_proxy, browser, count):
    """Issue 19, page: one row and a thousand, narrow and wide, dark and light; what is more is not
    read, and said."""
    view = View(browser, start_proxy(*HTTP, listen=("127.0.0.1",)), "sessions")
    browser.run(FAKE_ROWS % count)
    view.wait(lambda: len(view.rows("list-sessions")) == min(count, 1000)
              and view.rows("list-sessions")[0][1] == "coaps")
    browser.run("const field = document.getElementById('interval'); field.value = '10';"
                "field.dispatchEvent(new Event('change'))")
    assert ("of the first 1,000" in view.text("shown-sessions")) == (count > 1000)
    for width in (360, 2560) if count < 1500 else ():
        for is_dark in (False, True):
            browser.resize(width, 900, is_dark)
            assert view.get("document.documentElement.scrollWidth") <= width
            view.picture("sessions-%d-%d-%s" % (count, width, "dark" if is_dark else "light"),
                         whole=count == 1)
    browser.run("const field = document.getElementById('filter-sessions'); field.value = 'device-0';"
                "field.dispatchEvent(new Event('input'))")
    assert len(view.rows("list-sessions")) == 1


CONTROLS = {"button", "searchbox", "textbox", "checkbox", "combobox", "link", "slider", "spinbutton",
            "radio", "switch", "tab", "menuitem"}
NAMED = CONTROLS | {"region", "meter", "navigation", "img", "image", "table", "heading", "option"}


def heard(browser):
    """What a screen reader is told of: (role, name, properties), in the order of the page."""
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    return [(node.get("role", {}).get("value"), node.get("name", {}).get("value", ""),
             {one["name"]: one["value"].get("value") for one in node.get("properties", [])})
            for node in nodes if not node.get("ignored")]


def check_what_is_heard(browser, where):
    """Names for all that can be operated or found, headings in order, and nothing that interrupts."""
    level = 0
    for role, name, properties in heard(browser):
        if role in NAMED or (properties.get("focusable") and role not in (
                "RootWebArea", "main", "generic", "DescriptionListDetail")):
            assert name.strip(), (where, role, properties)
        if role == "heading":
            assert 1 <= properties["level"] <= level + 1, (where, name, properties["level"], level)
            level = properties["level"]
        assert properties.get("live") in (None, "polite", "off"), (where, role, name)
    assert level > 1, where


@needs_browser
def test_views_by_keyboard_and_by_ear(start_proxy, browser):
    """Issue 19, page: each view has a heading that gets the focus, and every field, table, button and
    region in it has a name; the link at the start leads to what is shown."""
    view = View(browser, start_proxy(*HTTP, "--set", "admin.operate=yes", listen=("127.0.0.1",)),
                "trace", width=360)
    names = view.get("[...document.querySelectorAll('nav a')].map((link) => link.hash.slice(1))")
    assert len(names) == 9
    for name in names:
        view.click("nav a[href='#%s']" % name)
        view.wait(lambda name=name: view.get("document.activeElement.closest('.view')?.id")
                  == "view-" + name)
        assert view.get("document.activeElement.tagName") == "H2"
        assert view.get("document.querySelectorAll('.view:not([hidden])').length") == 1
        assert view.get("document.querySelector('[aria-current]').hash") == "#" + name
        assert view.get("document.documentElement.scrollWidth") <= 360
        check_what_is_heard(browser, name)
    view.click("#skip")
    assert view.get("document.activeElement.id") == "main"
    browser.devtools("Input.dispatchKeyEvent", type="keyDown", key="Tab", code="Tab",
                     windowsVirtualKeyCode=9)
    assert view.get("document.activeElement.closest('main') !== null")
    assert view.is_clean()
