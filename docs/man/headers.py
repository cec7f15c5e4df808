#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""Manual pages from libcri's headers, one for each: headers.py OUTPUT HEADER...

cri/uri.h becomes cri_uri(3), and each of its functions a page that includes that one, for
people look for the function. The headers' comments are the one text; a page written
by hand beside them would drift. What the comments use of doxygen is little: @file,
@param, @return, @p, @a, @private, @name, /**< behind a member.
"""
import os
import re
import sys
import textwrap

DATE = "November 22, 2026"
COMMENT = re.compile(r"/\*\*(.*?)\*/\s*", re.S)
# Layout only: attributes of the compiler, not of the interface.
MARKS = re.compile(r"\b(CRI_API|CRI_NODISCARD|static inline)\s*")


def clean(comment):
    """Text of a comment without its frame."""
    lines = [re.sub(r"^\s*\*? ?", "", line) for line in comment.strip().split("\n")]
    return "\n".join(lines).strip()


def markup(text):
    """One line of a comment as a line of mdoc."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"@[pa] (\w+)", r"\\fI\1\\fR", text)
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text)


def sentences(text):
    """Running text as lines of mdoc: a sentence begins a line, and none is long."""
    for sentence in re.split(r"(?<=[.!?]) (?=[A-Z`@(])", " ".join(text.split())):
        yield from (markup(line) for line in textwrap.wrap(sentence, 76, break_long_words=False,
                                                           break_on_hyphens=False))


def items(lines):
    """Lines of a list of dashes, whose items may go on behind the first line."""
    yield ".Bl -dash -compact"
    for item in re.split(r"^- ", "\n".join(lines), flags=re.M)[1:]:
        yield ".It"
        yield from sentences(item)
    yield ".El"


def paragraphs(text):
    """Running text: blank lines part paragraphs, lines with a dash are list items."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.split("\n")
        first = next((i for i, line in enumerate(lines) if line.startswith("- ")), len(lines))
        if all(line.startswith("    ") for line in lines):
            out += [".Bd -literal -offset indent", *(markup(line) for line in lines), ".Ed"]
            continue
        out += [".Pp", *sentences("\n".join(lines[:first]))]
        if first < len(lines):
            out += items(lines[first:])
    return out[1:] if out[:1] == [".Pp"] else out


def split_tags(text):
    """The text before the first tag, [(name, text)] of @param, the text of @return, the rest."""
    head, *tags = re.split(r"^@(?=param|return)", text, flags=re.M)
    params = []
    result = ""
    rest = ""
    for tag in tags:
        body, _, after = tag.partition("\n\n")
        rest = after.strip() or rest
        if tag.startswith("param"):
            _, name, *words = body.split(None, 2)
            params.append((name, words[0] if words else ""))
        else:
            result = body.partition(" ")[2]
    return head.strip(), params, result, rest


class Page:
    def __init__(self, path):
        self.stem = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.about = ""
        self.constants = []
        self.types = []
        self.functions = []
        for match in COMMENT.finditer(text):
            comment = clean(match.group(1))
            if match.group(1).startswith("<") or re.match(r"@(name|\{|\})", comment):
                continue
            if comment.startswith("@file"):
                self.about = comment[len("@file"):].strip()
            else:
                self.add(comment, text[match.end():])
        for name, comment in re.findall(r"#define (CRI_\w+) [^\n]*?/\*\*< (.*?) \*/", text):
            self.constants.append((name, clean(comment)))

    def add(self, comment, code):
        """What stands behind a comment."""
        define = re.match(r"#define (CRI_\w+)\b", code)
        kind = re.match(r"(struct|enum) (\w+) \{(.*?)^\};", code, re.S | re.M)
        function = re.match(r"((?:CRI_API|static inline)\b[^;{]*?)\s*[;{]", code, re.S)
        if define:
            self.constants.append((define.group(1), comment))
        elif kind:
            members = re.findall(r"^\s*([^/\n]+?)[,;]?\s*/\*\*< (.*?) \*/", kind.group(3),
                                 re.S | re.M)
            self.types.append((f"{kind.group(1)} {kind.group(2)}", comment,
                               [(" ".join(name.split()), clean(text)) for name, text in members
                                if "@private" not in text]))
        elif function:
            self.functions.append((comment, self.prototype(function.group(1))))

    @staticmethod
    def prototype(code):
        """Return type, name and parameters."""
        code = " ".join(MARKS.sub("", code).split())
        result, name, parameters = re.match(r"(.*?)(\w+)\((.*)\)$", code).groups()
        return result.strip(), name, [p.strip() for p in parameters.split(",")]

    def synopsis(self):
        yield f".In cri/{self.stem}.h"
        for _, (result, name, parameters) in self.functions:
            yield f'.Ft "{result}"'
            yield f".Fo {name}"
            yield from (f'.Fa "{parameter}"' for parameter in parameters)
            yield ".Fc"

    def tagged(self, rows, macro):
        yield ".Bl -tag -width Ds -compact"
        for name, text in rows:
            yield f".It {macro} {name}" if " " not in name else f'.It {macro} "{name}"'
            yield from sentences(text)
        yield ".El"

    def describe_function(self, comment, name):
        head, params, result, rest = split_tags(comment)
        yield f".Ss {name}"
        yield from paragraphs(head)
        if params:
            yield ".Pp"
            yield from self.tagged(params, "Fa")
        if result:
            yield ".Pp"
            yield "Returns"
            yield from sentences(result)
        if rest:
            yield ".Pp"
            yield from paragraphs(rest)

    def lines(self):
        brief, _, rest = self.about.partition("\n\n")
        names = [name for _, (_, name, _) in self.functions] or [f"cri_{self.stem}"]
        yield '.\\" SPDX-License-Identifier: BSD-2-Clause'
        yield f'.\\" Made by docs/man/headers.py from cri/{self.stem}.h: change that.'
        yield from (f".Dd {DATE}", f".Dt CRI_{self.stem.upper()} 3", ".Os", ".Sh NAME")
        yield from (f".Nm {name} ," for name in names[:-1])
        yield f".Nm {names[-1]}"
        yield ".Nd " + re.split(r"[.:] |[.:]$", " ".join(brief.split()))[0]
        yield from (".Sh LIBRARY", "libcri (pkg-config", ".Ql libcri )", ".Sh SYNOPSIS")
        yield from self.synopsis()
        yield ".Sh DESCRIPTION"
        yield from paragraphs(rest or brief)
        if self.constants:
            yield ".Ss Constants"
            yield from self.tagged(self.constants, "Dv")
        for name, comment, members in self.types:
            yield f".Ss {name}"
            yield from paragraphs(comment)
            if members:
                yield ".Pp"
                yield from self.tagged(members, "Va")
        for comment, (_, name, _) in self.functions:
            yield from self.describe_function(comment, name)
        yield from (".Sh SEE ALSO", ".Xr libcri 3")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        os.remove(os.path.join(folder, name))  # of functions that are no more
    pages = [Page(path) for path in sys.argv[2:]]
    for page in pages:
        for _, (_, name, _) in page.functions:
            with open(os.path.join(folder, f"{name}.3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/cri_{page.stem}.3\n")
    # The header's page last: cri_resolve(3) is both.
    for page in pages:
        with open(os.path.join(folder, f"cri_{page.stem}.3"), "w", encoding="utf-8") as file:
            file.write("\n".join(page.lines()) + "\n")


if __name__ == "__main__":
    main()
