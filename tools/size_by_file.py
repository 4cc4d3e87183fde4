"""What libingot_runtime.so is made of: `make size`, or python tools/size_by_file.py [--build FOLDER] [--top 40].

Links it once more with a map, and prints the bytes of each source file that stay in it, largest first.
For the functions of one file: nm -S --size-sort --demangle BUILD/src/.../FILE.cpp.o
"""

import argparse
import collections
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "libingot_runtime.so.0"  # as the build names it
SECTIONS = ("text", "rodata", "data", "eh_frame", "gcc_except_table")
# An input section of a linker's map: its name, on a line of its own where it is long, then address, size and file.
INPUT = re.compile(r"^ (\.\S+)?\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+(\S.*)$")


def link_map(build: Path):
    """The linker's map of the library. Its archives are replaced by thin ones, whose members keep their paths: several sources have one name."""

    def ninja(*words):
        return subprocess.run(["ninja", "-C", str(build), "-t", *words], capture_output=True, text=True, check=True).stdout.splitlines()

    command = next(line for line in reversed(ninja("commands", LIBRARY)) if f"-o {LIBRARY}" in line)
    with tempfile.TemporaryDirectory() as folder:
        for archive in set(re.findall(r"src/\S+\.a", command)):
            objects = [str(build.resolve() / line.strip()) for line in ninja("query", archive) if line.strip().endswith(".o")]
            thin = f"{folder}/{Path(archive).name}"
            subprocess.run(["ar", "rcsT", thin, *objects], cwd=build, check=True)
            command = command.replace(archive, thin)
        command = command.replace(f"-o {LIBRARY}", f"-o {folder}/{LIBRARY} -Wl,-Map={folder}/map")
        subprocess.run(command, shell=True, cwd=build, check=True)
        return (Path(folder) / "map").read_text().split("Linker script and memory map", 1)[1]


def bytes_by_file(build: Path):
    """{source: {section: bytes}}"""
    sums = collections.defaultdict(collections.Counter)
    name = None
    for line in link_map(build).splitlines():
        if re.fullmatch(r" \.\S+", line):
            name = line.strip()
            continue
        found = INPUT.match(line)
        if not found:
            continue
        section = (found[1] or name or ".").split(".")[1]
        source = re.search(r"\b(src/[^()]*)\.o\)?$", found[3])
        if section in SECTIONS:
            sums[re.sub(r"CMakeFiles/[^/]*\.dir/", "", source[1]) if source else Path(found[3]).name][section] += int(found[2], 16)
    return sums


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--top", type=int, default=40)
    arguments = parser.parse_args()
    sums = bytes_by_file(arguments.build)
    print(f"{'bytes':>9} {'code':>9}  {LIBRARY}")
    print(f"{sum(sum(c.values()) for c in sums.values()):9} {sum(c['text'] for c in sums.values()):9}  all")
    for source, c in sorted(sums.items(), key=lambda item: -sum(item[1].values()))[: arguments.top]:
        print(f"{sum(c.values()):9} {c['text']:9}  {source}")


if __name__ == "__main__":
    main()
