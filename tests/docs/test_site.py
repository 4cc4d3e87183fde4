"""The built site in a real browser: part of `make check-deep` (needs chromium and the network for mkdocs), not of `make test`."""

import functools
import http.server
import os
import shutil
import subprocess
import threading

import pytest
from blocks import ROOT

pytestmark = pytest.mark.skipif(not os.environ.get("INGOT_TEST_SITE"), reason="builds the site and starts a browser: make check-deep")
PAGES = {"index": "ingot is an open inference compiler", "tutorials/dynamic_sizes": "shared_dims", "reference/compiling-and-running": "Compiles a model ahead of time", "options": "weight_dtype", "errors": "OptionError"}


@pytest.fixture(scope="module")
def built():
    subprocess.run(["make", "docs"], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="module")
def address(built):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=ROOT / "build/site")
    with http.server.ThreadingHTTPServer(("localhost", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def chromium(*arguments):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "a browser is needed: apt install chromium"
    return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", *arguments], capture_output=True, text=True, check=True, timeout=120).stdout


def test_types_are_links_and_others_can_link_here(built):
    """Signatures of the reference link the package's own types, and objects.inv has the public names."""
    import zlib

    page = (ROOT / "build/site/reference/compiling-and-running.html").read_text()
    assert 'href="#ingot.Module"' in page or 'href="#ingot.module.module.Module"' in page
    named = zlib.decompress((ROOT / "build/site/objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    assert "ingot.compile py:function 1 reference/compiling-and-running.html" in named and "ingot.Engine py:class" in named


@pytest.mark.parametrize("page", PAGES)
def test_a_page(address, page, tmp_path):
    shown = chromium("--dump-dom", f"{address}/{page}.html")
    assert PAGES[page] in shown and "md-search__input" in shown and 'class="md-tabs__link"' in shown
    assert f'src="{address}' not in shown and "https://fonts" not in shown  # nothing is loaded from elsewhere
    chromium("--window-size=1400,1000", f"--screenshot={tmp_path / 'page.png'}", f"{address}/{page}.html")
    assert (tmp_path / "page.png").stat().st_size > 30_000  # an empty page is 8 kB
