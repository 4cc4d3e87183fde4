"""README's lines, from installing on, as somebody with an empty environment and no network types them: packages come from a folder of wheels."""

import os
import re
import sys
from pathlib import Path

import pytest
from built import ROOT, run, wheel  # noqa: F401 (a fixture)
from repacked import repack, with_what_they_need

sys.path.insert(0, str(ROOT / "tests/docs"))
from blocks import blocks, matches  # noqa: E402

pytestmark = pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="builds a wheel and environments: INGOT_TEST_ALL=1")
README = ROOT / "README.md"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for name in with_what_they_need("numpy", "torch"):
        repack(name, folder)
    return folder


def lines_that_install() -> list[str]:
    """The indented lines of the section on installing that begin with pip."""
    section = README.read_text().split("\n## Install\n")[1].split("\n## ")[0]
    return [line.split("  #")[0].strip() for line in re.findall(r"^ {4}(pip install .*)$", section, re.M)]


@pytest.fixture(scope="module")
def installed(wheel, wheels, tmp_path_factory):
    """shell(line): what a line prints in a folder with dist/, in an environment in which README's lines were typed."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "dist").mkdir()
    (folder / "dist" / wheel.name).write_bytes(wheel.read_bytes())
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)

    def shell(line):
        places = {"PATH": f"{folder / 'venv/bin'}:{os.environ['PATH']}", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull, "PIP_EXTRA_INDEX_URL": ""}
        return run("bash", "-eu", "-c", line, cwd=folder, **places)

    first, second = lines_that_install()
    shell(first)
    assert shell("python -c 'import importlib.util as u; print(u.find_spec(\"torch\"), u.find_spec(\"ingot\") is not None)'") == "None True\n"
    assert shell("ingot --version").startswith("ingot ")
    shell(second)
    assert shell("python -c 'import torch, ingot; print(ingot.__file__)'").startswith(str(folder / "venv"))
    return shell


def test_the_first_result(installed):
    """Each block of README after the lines that install."""
    printed, ran = None, 0
    for language, _, code in blocks(README):
        if language == "text":
            assert matches(printed, code), printed
            continue
        printed, ran = installed(f"cat > block.py <<'END'\n{code}END\npython -W ignore block.py" if language == "python" else code), ran + 1
    assert ran >= 2


def test_only_what_is_declared_is_installed(installed):
    """No package of the tests' own environment is seen."""
    names = {line.split("==")[0].lower().replace("_", "-") for line in installed("pip freeze --all").splitlines() if "==" in line or " @ " in line}
    assert not names & {"pytest", "transformers", "scipy"}, names
    assert Path(installed("python -c 'import sys; print(sys.prefix)'").strip()).name == "venv"
