"""Installs the wheel into an empty Debian 12, by README's lines, and runs README and pages there as a reader types them.

    make wheel dist
    sudo python tests/wheel/empty_root.py dist/torch_ingot-*.whl dist/ingot-*.tar.gz --root /var/tmp/root

The root is made by debootstrap if it is not there. torch, transformers and what they need come from the packages of this Python, so nothing else is fetched. The tarball is
unpacked in /opt/ingot, for the pages with C++.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import roots
from repacked import repack, with_what_they_need
from test_readme import lines_that_install

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *(f"docs/tutorials/{name}.md" for name in ("torch_compile", "hugging_face", "diffusion", "from_torch_tensorrt", "state", "vision_cpp", "without_python")))
PACKAGES = "python3,python3-venv,ca-certificates,g++,cmake,make,pkg-config"
SETTINGS = "export HOME=/reader PATH=/reader/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PKG_CONFIG_PATH=/opt/ingot/lib/pkgconfig LD_LIBRARY_PATH=/opt/ingot/lib CMAKE_PREFIX_PATH=/opt/ingot"
DRIVER = """
import os, sys, tempfile
from pathlib import Path
sys.path.insert(0, "/reader/pages")
import blocks
folder = Path(tempfile.mkdtemp())
os.chdir(folder)
sys.path.insert(0, str(folder))
os.environ["INGOT_CACHE_DIR"] = str(folder / "cache")
blocks.run(Path("/reader/pages") / sys.argv[1], folder)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("tarball", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--mirror", default=roots.MIRROR)
    args = parser.parse_args()
    root = args.root.resolve()
    roots.make(root, "bookworm", PACKAGES, args.mirror)
    for folder in ("wheels", "reader", "opt/ingot"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)
    for name in with_what_they_need("numpy", "torch", "transformers"):
        repack(name, root / "wheels")
    (root / "reader/dist").mkdir()
    shutil.copy(args.wheel, root / "reader/dist")
    subprocess.run(["tar", "-xzf", args.tarball, "-C", root / "opt/ingot", "--strip-components=1"], check=True)
    (root / "reader/pages").mkdir()
    for page in (*PAGES, "tests/docs/blocks.py"):
        shutil.copy(ROOT / page, root / "reader/pages")
    (root / "reader/driver.py").write_text(DRIVER)

    def shell(line):
        return roots.works(root, line, f"{SETTINGS}; cd /reader")

    good = all(shell(line) for line in ("python3 -m venv venv", *lines_that_install(), "python -c 'import ingot; print(ingot.__file__)'", "pip install -q transformers"))
    good = good and all([shell(f"INGOT_BUILD=/reader/venv/bin python -W ignore driver.py {Path(page).name}") for page in PAGES])
    sys.exit(not good)


if __name__ == "__main__":
    main()
