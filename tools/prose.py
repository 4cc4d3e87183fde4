"""Docstrings of ingot as Markdown, and the extension of griffe that gives them to the site (mkdocs.yml)."""

from __future__ import annotations

import inspect
import re

import griffe

ITEM = re.compile(r"(\*{0,2}[a-z]\w*(?:, \*{0,2}[a-z]\w*)*)(?: \(or (\w+)\))?: (.*)")


def prose(text: str) -> str:
    """A docstring as Markdown. Lines `name: what it is` become a list; a line that is indented deeper than an item continues it."""
    out, item = [], None
    for line in inspect.cleandoc(text).splitlines():
        words, indent = line.strip(), len(line) - len(line.lstrip())
        match = ITEM.fullmatch(words)
        if not words:
            item = None
            out.append("")
        elif words == "Arguments:":
            out += ["**Arguments**", ""]
        elif match and (item is None or indent <= item):
            names = ", ".join(f"`{name}`" for name in match.group(1).split(", ")) + (f" (or `{match.group(2)}`)" if match.group(2) else "")
            if item is None and out and out[-1]:
                out.append("")
            out.append(f"- {names}: {match.group(3)}")
            item = indent
        elif item is not None and (indent > item or indent == item == 0):
            out.append("  " + words)
        else:
            if item is not None:
                out.append("")
            item = None
            out.append(words)
    return "\n".join(out)


class Docstrings(griffe.Extension):
    """Docstrings become Markdown. A class whose docstring lists no arguments of its constructor is made by functions: no constructor is shown."""

    def on_object(self, *, obj: griffe.Object, **_) -> None:
        if obj.docstring:
            obj.docstring.value = prose(obj.docstring.value)

    def on_class(self, *, cls: griffe.Class, **_) -> None:
        if "dataclass" not in cls.labels and not (cls.docstring and "Arguments" in cls.docstring.value):
            cls.members.pop("__init__", None)
