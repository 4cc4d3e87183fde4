"""Runs the `ingot` command that came with the package, and `ingot generate`, which is Python's."""

import os
import subprocess
import sys

from .engine._library import find

GENERATE = "  generate                    Write what a saved language model says after a prompt."


def main():
    if sys.argv[1:2] == ["generate"]:
        from .llm.command import main as generate

        sys.exit(generate(sys.argv[2:]))
    path = find("ingot")
    if sys.argv[1:] in (["--help"], ["-h"]):  # the list of subcommands, with the one that the program does not know
        shown = subprocess.run([path, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
        print(shown.stdout.rstrip("\n") + "\n" + GENERATE)
        sys.exit(shown.returncode)
    os.execv(path, [path, *sys.argv[1:]])
