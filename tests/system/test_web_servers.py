# SPDX-License-Identifier: BSD-2-Clause
"""nginx and HAProxy in front of the proxy, for HTTP/2 and names, with the configuration that the
guide "From the web to a device and back" prints (HC-1). Debian's nginx and haproxy."""

import json
import os
import shlex
import shutil

import pytest

from conftest import needs_ipv6
from printed import blocks
from test_browser import (WEB, own_certificate,  # pylint: disable=unused-import
                          own_terminal)

SCENE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "web_server_scene.py")

# What Debian's files have around the printed part; nothing of it outside of the test's folder.
NGINX = """\
user root;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/printed;
}}
"""
HAPROXY = """\
defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 50s

"""


def nginx_command(folder, text):
    (folder / "printed").write_text(text)
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
    return "nginx -e stderr -g 'daemon off;' -c %s/nginx.conf" % folder


def haproxy_command(folder, text):
    (folder / "haproxy.cfg").write_text(HAPROXY + text)
    return "haproxy -db -f %s/haproxy.cfg" % folder


def server(name, beginning, command):
    is_here = shutil.which(name) or os.access("/usr/sbin/" + name, os.X_OK)
    missing = [tool for tool, has in ((name, is_here), ("curl", shutil.which("curl"))) if not has]
    return pytest.param(beginning, command, id=name, marks=pytest.mark.skipif(
        bool(missing), reason="not here: " + ", ".join(missing)))


@needs_ipv6
@pytest.mark.parametrize("beginning, command", [
    server("nginx", "server {", nginx_command),
    server("haproxy", "frontend web", haproxy_command),
])
def test_http_2_and_names(terminal, certificate, beginning, command):
    """HC-1: HTTP/2 outside; events as they come; brackets and slashes of a URI as they were; and
    Host, so that a name that is not ours is refused."""
    [text] = [text for _, text in blocks(WEB) if text.startswith(beginning)]
    terminal.run("mkdir -p /etc/haproxy && cat %s %s >/etc/haproxy/gateway.pem\n"
                 "cp %s /etc/ssl/gateway.pem && cp %s /etc/ssl/gateway.key"
                 % (*certificate, *certificate))
    # The devices are on this host, where what the server passes on has no rights of its own.
    terminal.serve("criproxyd --listen http://127.0.0.1:8080 --set http.hosts=gateway.example "
                   "--set policy.own-host=yes --set 'access six.action=allow' "
                   "--set 'access six.target=coap://[::1]:1024-65535'")
    terminal.serve(command(terminal.folder, text))
    said = json.loads(terminal.run("PYTHONPATH=%s /usr/bin/python3 %s" % (
        os.path.dirname(SCENE), shlex.join([SCENE, certificate[0]])), patience_s=300))
    assert said["get"] == ["20.0", "2 200"]
    assert said["put"] == ["eton a", "2 200"]
    assert said["six"] == ["[b'x']"]
    assert said["other"][1] == "2 421"
