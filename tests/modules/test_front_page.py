"""The code in docs/front.md prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "front.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```\n)?", re.S)


def test_the_page_shows_what_its_code_prints():
    blocks, scope = BLOCK.findall(PAGE.read_text()), {"__name__": "front_page"}
    assert len(blocks) == PAGE.read_text().count("```python")
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, scope)
        assert printed.getvalue() == shown
