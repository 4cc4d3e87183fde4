"""Each block of the tutorials, of README.md, of the templates for issues and of the pages below runs, and prints what the page shows."""

import os
import re
import subprocess

import pytest
import torch
from blocks import BUILD, ROOT, blocks, matches, run

OTHERS = ("README.md", *(f"docs/{name}.md" for name in ("index", "install", "errors", "how_fast", "first_kernel", "troubleshooting", "serving", "versions", "plan_format", "quantisation", "llm")))
PAGES = [*sorted((ROOT / "docs/tutorials").glob("*.md")), *(ROOT / name for name in OTHERS), *sorted((ROOT / ".github/ISSUE_TEMPLATE").iterdir())]


@pytest.fixture
def prefix(tmp_path_factory):
    """The folder that `cmake --install` writes, for pages with C++."""
    where = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", where], check=True, capture_output=True)
    return next(where.rglob("pkgconfig")).parent


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # modules that a page writes
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    environment = {}
    if "```cpp title" in page.read_text():
        lib = request.getfixturevalue("prefix")
        environment = {"PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib), "CMAKE_PREFIX_PATH": str(lib.parent)}
    torch.manual_seed(0)
    try:
        run(page, tmp_path, environment)
    finally:
        torch._dynamo.reset()


FOR_DEVELOPERS = ("concepts", "extending", "first_kernel", "front", "walks", "performance", "differential")  # excerpts of files, and commands as they were typed
COLUMNS = 88  # of code, which a page of the site shows at 1,400 pixels; it wraps what is wider


@pytest.mark.parametrize("page", [p for p in dict.fromkeys([*PAGES, *sorted((ROOT / "docs").glob("*.md"))]) if p.stem not in ("README", *FOR_DEVELOPERS)], ids=lambda p: p.stem)
def test_code_fits_a_page_of_the_site(page):
    code = [line for language, _, code in blocks(page) if language != "text" for line in code.splitlines()]
    after_a_list = re.compile(r"^(?:[-*]|\d+\.) .*\n(?:\n? +.*\n)*", re.M)  # what is indented there is text
    text = re.sub(r"^```.*?^```$", "", after_a_list.sub("", page.read_text()), flags=re.S | re.M)
    code += [line[4:] for line in re.findall(r"^ {4}\S.*$", text, re.M)]
    assert not [line for line in code if len(line) > COLUMNS]


def test_what_a_page_shows_is_compared():
    assert matches("a b c\n", "a ... c\n") and matches("a\nx\ny\nb\n", "a\n...\nb\n") and not matches("a b d\n", "a ... c\n") and not matches("a\nb c\n", "a ... c\n")


def test_excerpts_stand_in_their_files():
    """Lines of C++ that docs/first_kernel.md shows are those of the file that the text in front of them names last."""
    page, file, count = (ROOT / "docs/first_kernel.md").read_text(), None, 0
    for path, code in re.findall(r"`(src/[\w./]+\.(?:cpp|cuh|h))`|^```cpp\n(.*?)^```$", page, re.M | re.S):
        if path:
            file = ROOT / path
        else:
            lines, count = file.read_text().splitlines(), count + 1
            for line in code.splitlines():
                assert line in lines, f"docs/first_kernel.md shows {line!r} of {file.relative_to(ROOT)}"
    assert count > 10
