"""Installs both wheels beside releases of Python and torch, and runs first_use.py and tests there: the table of docs/install.md.

    python tools/make_wheel.py --build build/release && python tools/make_wheel.py --torch-tensorrt
    python tests/wheel/environments.py python3.10=2.10.0 /opt/python3.13/bin/python=2.14.1 [--tests tests/saving,tests/dropin] [--wheels dist]

Each environment is clean, gets its packages by `pip install`, and is removed at the end. With `--libraries FOLDER`, torch is installed without the CUDA libraries that
it asks for, and reads those in that folder (`pip install --target FOLDER nvidia-...`): gigabytes less where several releases want the same.
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
BESIDE_TORCH = ("sympy", "networkx", "jinja2", "fsspec", "filelock", "typing_extensions", "mpmath", "setuptools")


def run(*command, cwd, log):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("INGOT", "PYTHON"))} | {"INGOT_CACHE": "off"}
    with open(log, "a") as file:
        print("$", *command, file=file, flush=True)
        done = subprocess.run(list(map(str, command)), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        file.write(done.stdout)
    return done


def environment(python, torch, wheels, libraries, tests, folder):
    """The cells of a row: the versions, then what works. What failed is in the log."""
    log = folder / "log"
    venv, inside = folder / "venv", folder / "venv/bin/python"
    steps = [(python, "-m", "venv", venv)]
    pip = (inside, "-m", "pip", "install", "-q", "--no-cache-dir")
    if libraries is None:
        steps.append((*pip, f"torch=={torch}", "numpy"))
    else:
        steps += [(*pip, "--no-deps", f"torch=={torch}"), (*pip, "numpy", *BESIDE_TORCH)]
    for step in steps:
        if run(*step, cwd=folder, log=log).returncode:
            return [f"not installed: see {log}"]
    if libraries is not None:
        site = next((venv / "lib").glob("python3*/site-packages"))
        for path in Path(libraries).iterdir():
            if not (site / path.name).exists():
                (site / path.name).symlink_to(path)
    if run(*pip, "--no-index", *(["--no-deps"] if libraries is not None else []), *wheels, cwd=folder, log=log).returncode:
        return [f"the wheels were not installed: see {log}"]
    version = run(inside, "-c", "import platform, torch; print(platform.python_version(), torch.__version__)", cwd=folder, log=log).stdout.split()
    used = run(inside, ROOT / "tests/wheel/first_use.py", cwd=folder, log=log)
    cells = [*version, "yes" if used.returncode == 0 else used.stdout.strip().splitlines()[-1]]
    if tests:
        run(*pip, "pytest", cwd=folder, log=log)
        done = run(inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rf", *(ROOT / t for t in tests), cwd=folder, log=log)
        cells.append(done.stdout.strip().splitlines()[-1].strip("= "))
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pairs", nargs="+", metavar="PYTHON=TORCH")
    parser.add_argument("--wheels", type=Path, default=ROOT / "dist")
    parser.add_argument("--libraries", type=Path, help="a folder with the CUDA libraries of torch's releases, as pip installs them")
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
        cells = environment(python, torch, wheels, args.libraries, [t for t in args.tests.split(",") if t], folder)
        good &= len(cells) > 2 and cells[2] == "yes" and all("failed" not in c for c in cells)
        print(f"| {' | '.join(cells)} |", flush=True)
        shutil.rmtree(folder / "venv")
    sys.exit(not good)


if __name__ == "__main__":
    main()
