"""docs/command_line.md is what `ingot --help` prints, and its examples use verbs and options that there are."""

import re
import sys

from blocks import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import command_line_page


def test_the_page_is_what_the_command_prints():
    assert command_line_page.PAGE.read_text() == command_line_page.page(BUILD / "ingot"), "run python tools/command_line_page.py"


def test_examples_use_options_that_there_are():
    for verb, example in command_line_page.EXAMPLES.items():
        text = command_line_page.help_of(BUILD / "ingot", verb)
        assert example.startswith(f"ingot {verb}")
        for option in re.findall(r" (--?[a-z]\S*)", example):
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text), f"{example}: {option}"
