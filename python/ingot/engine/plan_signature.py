"""Reads the signature, the text that Python stores in a plan: the structure of the model's inputs and results, what each flat one is, and other names of weights. The text
comes from a file, so all of it is checked: a fault is a FormatError that names its place. Needs no torch."""

from __future__ import annotations

import json

from ..base import size_text
from ..errors import FormatError

PARAMETER_KINDS = ["either", "positional", "rest", "keyword", "more"]
RECORDS = ("language_model", "encoder")  # entries that a way in keeps for itself: objects, which it checks
VERSION = 1  # the value of "ingot", which identifies the text as ingot's


def read(text: str) -> dict:
    """The signature: "inputs", "outputs", "tied", "unused", "lies", "parameters", and "in", "out" with the two structures as stored. Empty if there is none, because
    another program may have built the plan and stored its own text."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        if text.startswith('{"ingot":'):
            raise FormatError("the plan's signature is not JSON") from None
        return {}
    if not isinstance(found, dict):
        return {}
    if "ingot" in found:
        return _checked(found)
    if isinstance(found.get("in_spec"), str) and isinstance(found.get("out_spec"), str):  # as torch.export wrote it into a .pt2 file
        return {"in_spec": found["in_spec"], "out_spec": found["out_spec"], **_leaves(found), "parameters": _parameters(found)}
    return {}


def _leaves(found) -> dict:
    """The inputs and outputs in a text of `ingot compile`. Nothing for a text without parameters, or if one is neither a tensor nor a constant."""
    if "parameters" not in found or any("number" in leaf for key in ("inputs", "outputs") for leaf in _list(found, key)):
        return {}
    return _checked_leaves(found)


def _checked(found):
    if type(found["ingot"]) is not int or found["ingot"] != VERSION:
        raise FormatError(f"signature.ingot is {_shown(found['ingot'])}, and {VERSION} is known")
    leaves = _checked_leaves(found)
    tied, unused = found.get("tied", {}), found.get("unused", [])
    if not isinstance(tied, dict) or not all(_is_name(n) for pair in tied.items() for n in pair):
        raise FormatError("signature.tied is not an object of names")
    if not isinstance(unused, list) or not all(_is_name(n) for n in unused):
        raise FormatError("signature.unused is not a list of names")
    refused = found.get("refused", ["", ""])
    if not isinstance(refused, list) or len(refused) != 2 or not all(isinstance(t, str) for t in refused):
        raise FormatError("signature.refused is not a message and a remedy")
    records = {key: found[key] for key in RECORDS if isinstance(found.get(key), dict)}
    return {**{k: found[k] for k in ("in", "out", "refused") if k in found}, **records, **leaves, "tied": tied, "unused": unused, "lies": _layouts(found), "parameters": _parameters(found)}


def _parameters(found):
    """The parameters of the model's forward, as arguments.py writes them."""
    value, names = found.get("parameters", []), set()
    if not isinstance(value, list):
        raise FormatError(f"signature.parameters is {_shown(value)}, not a list")
    for i, parameter in enumerate(value):
        where = f"signature.parameters[{i}]"
        if not isinstance(parameter, dict) or not {"name", "kind"} <= parameter.keys() <= {"name", "kind", "optional", "default"}:
            raise FormatError(f"{where} is not an object with name and kind")
        if not _is_name(parameter["name"]) or parameter["name"] in names:
            raise FormatError(f"{where}.name is {_shown(parameter['name'])}, which is not a name of its own")
        if parameter["kind"] not in PARAMETER_KINDS:
            raise FormatError(f"{where}.kind is {_shown(parameter['kind'])}, which is unknown")
        if not is_constant(parameter.get("default")):
            raise FormatError(f"{where}.default is {_shown(parameter['default'])}, which is not a constant")
        names.add(parameter["name"])
    return value


def _layouts(found) -> dict:
    """The layout that some inputs must have, by name. reshapes.py says why."""
    value = found.get("lies", {})
    if not isinstance(value, dict):
        raise FormatError(f"signature.lies is {_shown(value)}, not an object")
    for name, layout in value.items():
        known = isinstance(layout, dict) and layout.keys() - {"ones", "offset"} in ({"order"}, {"strides"})
        numbers = layout.get("order", layout.get("strides")) if known else None
        good = known and all(isinstance(each, list) and all(type(n) is int and 0 <= n < 2**63 for n in each) for each in layout.values())
        if not good or "order" in layout and sorted(numbers) != list(range(len(numbers))) or len(layout.get("offset", [0])) != 1:
            raise FormatError(f"signature.lies.{name[:40]} is neither an order of axes nor strides, with axes of size 1 or without")
    return value


def _checked_leaves(found):
    inputs, outputs = (_list(found, key) for key in ("inputs", "outputs"))
    tensors = 0
    for i, leaf in enumerate(inputs):
        tensors += _input(leaf, f"signature.inputs[{i}]", tensors)
    for i, leaf in enumerate(outputs):
        _output(leaf, f"signature.outputs[{i}]", tensors)
    return {"inputs": inputs, "outputs": outputs}


def _list(found, key):
    value = found.get(key)
    if not isinstance(value, list) or not all(isinstance(leaf, dict) and len(leaf) == 1 for leaf in value):
        raise FormatError(f"signature.{key} is not a list of objects with one key each")
    return value


def _input(leaf, where, tensors) -> bool:
    """Checks an input. Returns whether it is a tensor; tensors come in order."""
    ((kind, value),) = leaf.items()
    if kind == "tensor":
        if type(value) is not int or value != tensors:
            raise FormatError(f"{where}.tensor is {_shown(value)}, and {tensors} comes next")
        return True
    _constant(leaf, where)
    return False


def _output(leaf, where, tensors):
    ((kind, value),) = leaf.items()
    if kind == "tensor":
        if type(value) is not int or value < 0:
            raise FormatError(f"{where}.tensor is {_shown(value)}, not the number of an output")
    elif kind == "size":
        size_of(value, f"{where}.size", tensors)
    else:
        _constant(leaf, where)


def _constant(leaf, where):
    ((kind, value),) = leaf.items()
    if kind != "constant":
        raise FormatError(f"{where} is of the unknown kind {_shown(kind)}")
    if not is_constant(value):
        raise FormatError(f"{where}.constant is {_shown(value)}, which is not a constant")


def is_constant(value) -> bool:
    """Whether a plan can store the value as a constant input or result."""
    if type(value) is int:
        return -(2**63) <= value < 2**64
    return value is None or type(value) in (bool, float) or type(value) is str and _is_name(value)


def write(signature: dict) -> str:
    return json.dumps(signature)


def size_of(value, where, tensors):
    """The expression of a size that the model returns. For each name in it, the input and axis whose size is factor * name + offset."""
    if not isinstance(value, dict) or not isinstance(value.get("text"), str) or not isinstance(value.get("axes"), dict):
        raise FormatError(f"{where} is not an object with text and axes")
    for name, place in value["axes"].items():
        good = isinstance(place, list) and len(place) in (2, 4) and all(type(n) is int and abs(n) < 2**63 for n in place)
        if not good or min(place[:2]) < 0 or place[0] >= tensors or len(place) == 4 and place[2] < 1:
            raise FormatError(f"{where}.axes.{name[:40]} is {_shown(place)}, not [input, axis] or [input, axis, factor, offset]")
    return size_text.parse(value["text"], value["axes"], f"{where}.text"), value["axes"]


def _is_name(value) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, written as \\ud800
        return False
    return True


def _shown(value) -> str:
    text = repr(value) if type(value) in (str, int, float, bool, type(None)) and not (type(value) is int and value.bit_length() > 100) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:60] + "..."
