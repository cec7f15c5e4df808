# SPDX-License-Identifier: BSD-2-Clause
"""The dashboard and the alert rules of docs/examples/monitoring are about metrics and
reasons that a running criproxyd has."""

import json
import os
import re
import shutil
import subprocess
import urllib.request

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MONITORING = os.path.join(ROOT, "docs/examples/monitoring")
CRIPROXYD = os.path.join(os.environ["CRI_STAGE"], "sbin/criproxyd")
TIMEOUT_S = 120


def read(name):
    with open(os.path.join(MONITORING, name), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(name="metrics", scope="module")
def exported_metrics():
    """What a proxy that was just started tells Prometheus."""
    with subprocess.Popen(
            [CRIPROXYD, "--listen", "coap://127.0.0.1:0",
             "--set", "admin.listen=http://127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = None
            for line in process.stderr:
                match = re.search(r" admin_listening .*uri=(http://[^ ]*)", line)
                address = match[1].strip() if match else address
                if " ready " in line:
                    break
            with urllib.request.urlopen(address + "/metrics", timeout=TIMEOUT_S) as answer:
                yield answer.read().decode()
        finally:
            process.terminate()
            process.stderr.read()


def expressions():
    """(where, PromQL) of both files."""
    dashboard = json.loads(read("criproxyd-dashboard.json"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        yield variable["name"], variable["query"]
    for note in dashboard["annotations"]["list"]:
        yield note["name"], note["expr"]
    alerts = re.split(r"- alert: ", read("criproxyd-alerts.yaml"))[1:]
    assert len(alerts) >= 5
    for alert in alerts:
        yield alert.split("\n", 1)[0], re.search(r"expr:(.*?)\n +(for|labels):", alert, re.S)[1]


def test_every_metric_exists(metrics):
    """Issue 8: no panel and no rule is about a metric that is not there."""
    exported = set(re.findall(r"^([a-z_]+)(?:\{[^}]*\})? ", metrics, re.MULTILINE))
    used = set()
    for where, expression in expressions():
        names = set(re.findall(r"\b(?:criproxyd|process)_[a-z_]+", expression))
        assert names <= exported, (where, names - exported)
        used |= names
    assert len(used) > 30
    assert "criproxyd_no_such_metric" not in exported


def rows_of_reasons():
    """(name, about) of each row of reasons.def that a request can end for."""
    with open(os.path.join(ROOT, "daemon/coap/reasons.def"), encoding="utf-8") as file:
        rows = re.findall(r"^REASON\((\w+),[^a-z]*(\w+),", file.read(), re.M)
    return [row for row in rows if row[0] != "none"]


def test_reasons_are_chosen_by_what_they_are_about(metrics):
    """The label about is the column of reasons.def, and no expression lists reasons by name:
    such a list misses the next one."""
    exported = set(re.findall(r'about="([a-z]+)",reason="([a-z_]+)"', metrics))
    rows = rows_of_reasons()
    assert len(rows) > 30
    assert exported == {(about, name) for name, about in rows}
    abouts = {about for _, about in rows}
    asked = set()
    for where, expression in expressions():
        assert not re.search(r"\breason *(=|!)", expression), where
        for value in re.findall(r'\babout[=!]+"([^"]*)"', expression.replace('\\"', '"')):
            assert value in abouts, (where, value)
            asked.add(value)
    assert asked >= {"origin", "proxy", "success"}


def test_panels_do_not_overlap():
    """Issue 8: the dashboard as Grafana lays it out."""
    taken = {}
    ids = set()
    for panel in json.loads(read("criproxyd-dashboard.json"))["panels"]:
        assert panel["id"] not in ids
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool here")
def test_promtool_takes_the_rules():
    """Issue 8: promtool check."""
    for command, name in (("rules", "criproxyd-alerts.yaml"), ("config", "prometheus.yaml")):
        done = subprocess.run(["promtool", "check", command, os.path.join(MONITORING, name)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stdout
