#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""The table of Content-Formats in cri.lua, made from daemon/coap/media.def.

    tools/wireshark/formats.py            prints it
    tools/wireshark/formats.py --write    puts it into cri.lua
"""
import os
import re
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
DISSECTOR = os.path.join(FOLDER, "cri.lua")
TABLE = os.path.join(FOLDER, "../../daemon/coap/media.def")
BEGIN = "-- From media.def, by formats.py:\nlocal CONTENT_FORMATS = {\n"
END = "}\n"


def rows():
    """(number, media type, coding) of each row."""
    with open(TABLE, encoding="utf-8") as file:
        found = re.findall(r'^MEDIA\((\d+),\s*"((?:[^"\\]|\\.)*)",\s*"([^"]*)"\)$', file.read(), re.M)
    return [(int(number), text.replace('\\"', '"'), coding) for number, text, coding in found]


def table():
    """The rows as Lua."""
    lines = []
    for number, text, coding in rows():
        name = text + (" (%s)" % coding if coding else "")
        lines.append("    [%d] = '%s'," % (number, name))
    return BEGIN + "\n".join(lines) + "\n" + END


def split(text):
    """What is before the table, the table, and what is behind it."""
    begin = text.index(BEGIN)
    end = text.index("\n" + END, begin) + 1 + len(END)
    return text[:begin], text[begin:end], text[end:]


def main():
    if sys.argv[1:] != ["--write"]:
        print(table(), end="")
        return
    with open(DISSECTOR, encoding="utf-8") as file:
        before, _, behind = split(file.read())
    with open(DISSECTOR, "w", encoding="utf-8") as file:
        file.write(before + table() + behind)


if __name__ == "__main__":
    main()
