"""Finishes a release: docs/releasing.md. `make release` runs it before and after the packages are made.

    python tools/release.py --ready     stops unless the version, its section of CHANGELOG.md and its tag agree, and nothing is uncommitted
    python tools/release.py             adds the list of parts to dist/, has the packages judged, writes SHA256SUMS
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
PARTS = "torch-ingot.cdx.json"  # of a wheel: pyproject.toml
PACKAGES = ("torch_ingot-*.whl", "torch_ingot_tensorrt-*.whl", "torch_ingot-*.tar.gz", "ingot-*-linux-*.tar.gz")


def unready(root: Path) -> list[str]:
    """Why the checkout is not the source of a release, a sentence each."""

    def git(*words):
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]

    version = re.search(r'^__version__ = "(.*)"', (root / "python/ingot/__init__.py").read_text(), re.M).group(1)
    heading = re.search(r"^## (.*)$", (root / "CHANGELOG.md").read_text(), re.M).group(1)
    found = []
    if not re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", heading):
        found.append(f"CHANGELOG.md begins with '{heading}': write '## {version} (YYYY-MM-DD)'")
    if f"v{version}" not in git("tag", "--points-at", "HEAD"):
        found.append(f"this commit has no tag v{version}: git tag -s v{version}")
    if changed := git("status", "--porcelain"):
        found.append(f"{len(changed)} files are not committed, the first is '{changed[0][3:]}': packages are made of what is committed")
    return found


def judge(packages: list[Path]) -> None:
    """Metadata and readme by twine, the layout by check-wheel-contents. Both print what is wrong."""
    of_python = [path for path in packages if path.name.startswith("torch_ingot")]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *of_python], check=True)
    wheels = [path for path in of_python if path.suffix == ".whl"]
    subprocess.run([Path(sys.executable).parent / "check-wheel-contents", "--config", ROOT / "pyproject.toml", *wheels], check=True)


def finish(folder: Path) -> Path:
    """The list of parts from the wheel, and the checksums of all that is there."""
    packages = [path for pattern in PACKAGES for path in sorted(folder.glob(pattern))]
    for pattern in PACKAGES:
        if not list(folder.glob(pattern)):
            raise SystemExit(f"{folder} has no {pattern}: `make release` makes all packages")
    judge(packages)
    with zipfile.ZipFile(packages[0]) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith(f"sboms/{PARTS}")))
    (folder / PARTS).write_bytes(text)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in (*packages, folder / PARTS)]
    (folder / SUMS).write_text("".join(sorted(lines, key=lambda line: line.split()[1])))
    return folder / SUMS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ready", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    if arguments.ready:
        if found := unready(ROOT):
            sys.exit("not a release (`make release DRAFT=1` makes the packages all the same):\n" + "\n".join(f"  {why}" for why in found))
        return
    print(finish(arguments.out.resolve()).read_text(), end="")


if __name__ == "__main__":
    main()
