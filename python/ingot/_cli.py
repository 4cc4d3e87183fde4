"""Runs the `ingot` command that came with the package."""

import os
import sys

from .engine._library import find


def main():
    path = find("ingot")
    os.execv(path, [path, *sys.argv[1:]])
