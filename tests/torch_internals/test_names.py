"""Each private name of torch that python/ingot/torch_internals imports or spells, by itself: run on another torch, this lists what that release has dropped or renamed."""

import ast
import importlib
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "python/ingot/torch_internals"
OPTIONAL = {"torch._C._is_any_autocast_enabled": "quicker to ask than each device; without it each is asked"}


def dotted(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def spelled(text):
    """The full names of torch in a file."""
    tree, found, inner, known = ast.parse(text), set(), set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module.split(".")[0] == "torch":
            for alias in node.names:
                found.add(f"{node.module}.{alias.name}")
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call) and dotted(node.func) == "importlib.import_module":
            found.add(node.args[0].value)
        if isinstance(node, ast.Attribute):
            inner |= set(ast.walk(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node not in inner and (path := dotted(node)):
            root, _, rest = path.partition(".")
            if root == "torch" or root in known:
                found.add(f"{known.get(root, root)}.{rest}")
    return found


NAMES = sorted((path.stem, name) for path in FOLDER.glob("*.py") for name in spelled(path.read_text()))


def resolved(name):
    """What the name stands for. AttributeError or ImportError if there is no such thing."""
    found, parts = torch, name.split(".")
    for i, part in enumerate(parts[1:], 2):
        if not hasattr(found, part) or isinstance(found, type(torch)) and i < len(parts) and not isinstance(getattr(found, part), type(torch)):
            try:  # a module behind a function of its name, or not imported yet
                found = importlib.import_module(".".join(parts[:i]))
                continue
            except ImportError:
                pass
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("file, name", NAMES, ids=[name for _, name in NAMES])
def test_torch_has(file, name):
    if name in OPTIONAL:
        return
    try:
        resolved(name)
    except (AttributeError, ImportError) as problem:
        pytest.fail(f"torch {torch.__version__} has no {name}, which torch_internals/{file}.py names: {problem}")


def test_this_finds_names_that_are_gone():
    assert len(NAMES) > 60
    with pytest.raises(AttributeError):
        resolved("torch._subclasses.fake_tensor.GoneTensor")
    assert spelled("import torch\nfrom torch._a import b as c\nc.d(torch._C._e.f)") == {"torch._a.b", "torch._a.b.d", "torch._C._e.f"}
