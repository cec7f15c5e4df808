#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a container is started with, NUL after each word, as an engine would do it.

compose.py command COMPOSE SERVICE INSPECT   entrypoint and command of a service
compose.py health COMPOSE                    the healthcheck of the service proxy
compose.py check COMPOSE INSPECT             complains about what must hold

INSPECT is what `buildah inspect` prints for the image."""

import json
import sys

import yaml


def image_config(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["Docker"]["config"]


def services(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)["services"]


def print_words(words):
    sys.stdout.write("".join(word + "\0" for word in words))


def check(compose, config):
    """Issue 8: not root, a healthcheck, ports, labels; and no container of the lab may do more."""
    ports = {"5683/udp", "5684/udp", "5683/tcp", "5684/tcp"}
    if config.get("User") != "5683:5683":
        yield "the image runs as %r" % config.get("User")
    if set(config.get("ExposedPorts") or ()) != ports:
        yield "the image exposes %r" % config.get("ExposedPorts")
    if not (config.get("Healthcheck") or {}).get("Test"):
        yield "the image has no healthcheck"
    if "org.opencontainers.image.title" not in (config.get("Labels") or {}):
        yield "the image has no labels"
    found = services(compose)
    if (config.get("Healthcheck") or {}).get("Test") != found["proxy"]["healthcheck"]["test"]:
        yield "the healthcheck of the service is not the image's"
    if set(found) != {"proxy", "origin", "client"}:
        yield "compose.yaml has the services %r" % sorted(found)
    for name, service in found.items():
        if not service.get("read_only") or service.get("cap_drop") != ["ALL"]:
            yield "%s can write its root or has capabilities" % name
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                yield "%s is published beyond this host: %s" % (name, port)


def main():
    what, *paths = sys.argv[1:]
    if what == "command":
        compose, name, inspect = paths
        config = image_config(inspect)
        service = services(compose)[name]
        command = [word.replace("$$", "$") for word in service.get("command", config.get("Cmd"))]
        print_words((config.get("Entrypoint") or []) + command)
        return 0
    if what == "health":
        test = services(paths[0])["proxy"]["healthcheck"]["test"]
        assert test[0] == "CMD", test
        print_words(test[1:])
        return 0
    complaints = list(check(paths[0], image_config(paths[1])))
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
