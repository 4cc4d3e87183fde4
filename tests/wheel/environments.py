"""Installs both wheels beside releases of Python and torch, and runs first_use.py and tests there: the table of docs/install.md.

    python tools/make_wheel.py --build build/release && python tools/make_wheel.py --torch-tensorrt
    python tests/wheel/environments.py python3.10=2.10.0 /opt/python3.13/bin/python=2.14.1 [--tests tests/saving,tests/dropin] [--wheels dist]

Each environment is clean and is removed at the end. `uv` (pip install uv) makes it: torch's CUDA libraries, gigabytes, are then on the disk once, however many releases want them.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/torch_internals,tests/modules/test_call.py,tests/modules/test_inputs.py,tests/capture/test_just_in_time.py,tests/saving/test_saving.py,tests/dropin/test_dropin_compile.py"


def run(*command, cwd, log):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("INGOT", "PYTHON"))} | {"INGOT_CACHE": "off"}
    with open(log, "a") as file:
        print("$", *command, file=file, flush=True)
        done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        file.write(done.stdout)
    return done


def environment(python, torch, wheels, tests, folder):
    """The cells of a row: the versions, then what works. What failed is in the log."""
    log = folder / "log"
    venv, inside = folder / "venv", folder / "venv/bin/python"
    install = ("uv", "pip", "install", "-q", "-p", inside)
    for step in (("uv", "venv", "-q", "-p", python, venv), (*install, f"torch=={torch}", "numpy", "pytest", "transformers"), (*install, *wheels)):
        if run(*step, cwd=folder, log=log).returncode:
            return [f"{step[-1]} was not installed: see {log}"]
    version = run(inside, "-c", "import platform, torch; print(platform.python_version(), torch.__version__)", cwd=folder, log=log).stdout.split()
    used = run(inside, ROOT / "tests/wheel/first_use.py", cwd=folder, log=log)
    cells = [*version, "yes" if used.returncode == 0 else used.stdout.strip().splitlines()[-1]]
    if tests:
        done = run(inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", *(ROOT / t for t in tests), cwd=folder, log=log)
        cells.append(done.stdout.strip().splitlines()[-1].strip("= "))
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs", nargs="+", metavar="PYTHON=TORCH")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--tests", default=TESTS, help='paths with commas, "" for none')
    parser.add_argument("--folder", type=Path, default=None, help="where environments and logs are; by default a temporary folder")
    args = parser.parse_args()
    wheels = [next(args.wheels.resolve().glob(name)) for name in ("torch_ingot-[0-9]*.whl", "torch_ingot_tensorrt-*.whl")]
    top = args.folder or Path(tempfile.mkdtemp())
    print("| Python | torch | first use | tests |\n|---|---|---|---|")
    good = True
    for number, pair in enumerate(args.pairs, 1):
        python, torch = pair.split("=")
        folder = top / str(number)
        folder.mkdir(parents=True)
        cells = environment(python, torch, wheels, [t for t in args.tests.split(",") if t], folder)
        good &= len(cells) > 2 and cells[2] == "yes" and all("failed" not in c for c in cells)
        print(f"| {' | '.join(cells)} |", flush=True)
        shutil.rmtree(folder / "venv")
    sys.exit(not good)


if __name__ == "__main__":
    main()
