"""Wheels made of packages that are installed here, for tests that install without a network."""

from __future__ import annotations

import zipfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_OF_INSTALLERS = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json")


def repack(name: str, folder: Path) -> Path:
    """The wheel of an installed distribution, not compressed. Its scripts are made anew from its entry points."""
    installed = metadata.distribution(name)
    tags = [line.split(": ")[1].split("-") for line in (installed.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    tag = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags))
    made = folder / f"{installed.name.replace('-', '_')}-{installed.version}-{tag}.whl"
    names = []
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for file in installed.files or ():
            text = file.as_posix()
            if text.startswith("..") or file.suffix == ".pyc" or file.parts[0].endswith(".dist-info") and file.name in _OF_INSTALLERS:
                continue
            archive.write(file.locate(), text)
            names.append(text)
        (info,) = {n.split("/")[0] for n in names if n.split("/")[0].endswith(".dist-info")}
        record = "".join(f'"{n}",,\n' for n in (*names, f"{info}/RECORD"))
        archive.writestr(f"{info}/RECORD", record)
    return made


def with_what_they_need(*names: str) -> set[str]:
    """The distributions and what they require, themselves or through others."""
    found, wanted = set(), list(names)
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(metadata.distribution(requirement.name).name)
    return found
