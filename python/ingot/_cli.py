"""Runs the `ingot` command that came with the package, and `ingot generate`, which is Python's."""

import os
import sys

from .engine._library import find


def main():
    if sys.argv[1:2] == ["generate"]:
        from .llm.command import main as generate

        sys.exit(generate(sys.argv[2:]))
    path = find("ingot")
    os.execv(path, [path, *sys.argv[1:]])
