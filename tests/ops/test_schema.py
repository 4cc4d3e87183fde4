"""Each operator definition's schema is torch's: names, types and defaults of the parameters it lists, in torch's order. Parameters that it leaves out have defaults."""

import re
import struct

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  registers transformers' own operators
from ingot.engine import _library


def parameters(text: str) -> dict[str, tuple[str, str | None]]:
    """name -> (type, default) of schema text, without alias annotations."""
    inside = re.sub(r"\([a-z]!?(?: -> \*)?\)", "", text[text.index("(") + 1 : text.rindex(") ->")])
    out, depth, start = {}, 0, 0
    for i, c in enumerate(inside + ","):
        depth += (c in "[(") - (c in "])")
        if c != "," or depth:
            continue
        part, start = inside[start:i].strip(), i + 1
        if part and part != "*":
            declaration, _, default = part.partition("=")
            kind, _, name = declaration.rpartition(" ")
            out[name] = (kind, default or None)
    return out


def same(ours: str | None, theirs: str | None) -> bool:
    if ours is None or theirs is None:
        return ours == theirs
    if ours.strip("'\"") == theirs.strip("'\""):
        return True
    try:
        return struct.pack("d", float(ours)) == struct.pack("d", float(theirs))
    except ValueError:
        return False


@pytest.mark.parametrize("row", _library.ops(), ids=lambda row: row["name"])
def test_schema(row):
    namespace, name, variant = row["name"].split(".")
    try:
        overload = getattr(getattr(getattr(torch.ops, namespace), name), variant)
    except AttributeError:
        pytest.fail(f"torch {torch.__version__} has no {row['name']}")
    theirs = parameters(str(overload._schema))
    order = list(theirs)
    places = []
    for p in row["parameters"]:
        assert p["name"] in theirs, f"torch has no parameter {p['name']}: {overload._schema}"
        kind, default = theirs[p["name"]]
        assert p["type"] == kind, f"{p['name']} is {kind}, the row says {p['type']}"
        assert same(p.get("default"), default), f"{p['name']} defaults to {default}, the row says {p.get('default')}"
        places.append(order.index(p["name"]))
    assert places == sorted(places), f"the row's order differs from torch's: {overload._schema}"
    listed = {p["name"] for p in row["parameters"]}
    for name, (kind, default) in theirs.items():
        assert name in listed or default is not None, f"the row leaves out {kind} {name}, which has no default"
