"""docs/migration.md is generated from the tables, and the names in the tables exist."""

import importlib
import sys
from pathlib import Path

import pytest

import ingot.torch_tensorrt as torch_tensorrt
from ingot import UnsupportedError
from ingot.torch_tensorrt._symbols import SYMBOLS
from ingot.torch_tensorrt.dynamo._settings import TABLE

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import migration_page


def found(name):
    *path, last = name.split(".")
    owner = torch_tensorrt
    for at in range(len(path)):
        owner = getattr(owner, path[at]) if hasattr(owner, path[at]) else importlib.import_module("ingot.torch_tensorrt." + ".".join(path[: at + 1]))
    return getattr(owner, last)


def test_the_page_is_made_of_the_tables():
    assert migration_page.PAGE.read_text() == migration_page.page(), "run python tools/migration_page.py"


@pytest.mark.parametrize("row", SYMBOLS, ids=lambda s: s.name)
def test_a_name_is_what_the_table_says(row):
    assert row.status in ("works", "differs", "not yet", "refused") and row.text and (row.remedy or row.status != "refused")
    value = found(row.name)
    if row.status == "refused":
        with pytest.raises(UnsupportedError) as problem:
            value()
        assert row.text in str(problem.value) and row.remedy in str(problem.value)


def public(module, prefix=""):
    for name in module.__all__:
        value = getattr(module, name)
        if hasattr(value, "__all__") and value.__name__.startswith(module.__name__):
            yield from public(value, f"{prefix}{name}.")
        elif not hasattr(value, "__path__") and value.__class__.__name__ != "module":
            yield prefix + name


def test_every_public_name_is_in_the_table():
    known = {row.name for row in SYMBOLS}
    listed = known | {name.rpartition(".")[2] for name in known}  # re-exported names
    own = {"CallError", "PartialCompilationError", "BindingNameMismatchError", "RefitFlag", "RefitState", "DYNAMO_ATEN_CONVERTERS", "torch_trt_decompositions", "TorchTensorRTOperatorSupport"}
    own |= {"has_user_rules", "with_user_rules"}
    assert {name for name in public(torch_tensorrt) if name not in known and name.rpartition(".")[2] not in listed | own} == set()


def test_there_are_51_settings():
    assert len([row for row in TABLE if row.group == "field"]) == 51
    assert len({row.name for row in TABLE}) == len(TABLE)
