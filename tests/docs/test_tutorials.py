"""Each block of the tutorials, of docs/install.md, docs/index.md and docs/errors.md runs, and prints what the page shows."""

import os
import subprocess

import pytest
import torch
from blocks import BUILD, ROOT, matches, run

PAGES = [*sorted((ROOT / "docs/tutorials").glob("*.md")), *(ROOT / "docs" / name for name in ("index.md", "install.md", "errors.md"))]


@pytest.fixture
def prefix(tmp_path_factory):
    """The folder that `cmake --install` writes, for pages with C++."""
    where = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", where], check=True, capture_output=True)
    return next(where.rglob("pkgconfig")).parent


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INGOT_CACHE_DIR", str(tmp_path / "cache"))
    environment = {}
    if "```cpp" in page.read_text():
        lib = request.getfixturevalue("prefix")
        environment = {"PKG_CONFIG_PATH": str(lib / "pkgconfig"), "LD_LIBRARY_PATH": str(lib)}
    torch.manual_seed(0)
    try:
        run(page, tmp_path, environment)
    finally:
        torch._dynamo.reset()


def test_what_a_page_shows_is_compared():
    assert matches("a b c\n", "a ... c\n") and matches("a\nx\ny\nb\n", "a\n...\nb\n") and not matches("a b d\n", "a ... c\n") and not matches("a\nb c\n", "a ... c\n")
