"""Writes the signature of a plan: how a call's pytrees map to the flat inputs and results of a graph. plan_signature.py reads it."""

from __future__ import annotations

import math

import torch

from ..base import size_text, structure
from ..engine import plan_signature
from ..errors import UnsupportedError
from .sizes import places
from .writer import needed_nodes


def signature_of(program, f) -> dict:
    """The signature that Python stores in a plan. "refused" says why a file cannot keep the model's inputs and results; such a module is not saved as a plan."""
    outputs, made, needed = [], 0, needed_nodes(f)
    for result in f.results:
        value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
        if isinstance(value, torch.Tensor):
            outputs.append({"tensor": made})
            made += 1
        elif isinstance(value, torch.SymInt):
            outputs.append(_size_of_inputs(value.node.expr, f))
        else:
            outputs.append({"constant": value})
    found = {"ingot": plan_signature.VERSION, "inputs": inputs_of(f.inputs), "outputs": outputs,
             "tied": {name: slot.name for slot in f.slots for name in slot.tied},
             "unused": [slot.name for slot in f.slots if slot.kind == "weight" and slot.node not in needed]}  # fmt: skip
    if layouts := {slot.name: slot.layout for slot in f.inputs if slot.layout is not None}:
        found["lies"] = layouts
    try:
        found["in"], found["out"] = structure.write(program.call_spec.in_spec), structure.write(program.call_spec.out_spec)
        _refuse_what_a_plan_lacks(found)
    except UnsupportedError as problem:
        found["refused"] = [problem.message, problem.remedy]
    return found


def as_text(signature: dict) -> str:
    """The signature as the plan's text. A refused one has only what updates of weights need."""
    if "refused" in signature:
        signature = {**signature, "inputs": [], "outputs": [], "in": "*", "out": "*"}
    return plan_signature.write(signature)


def _refuse_what_a_plan_lacks(found):
    for leaf in found["inputs"]:
        if "number" in leaf:
            raise UnsupportedError(f"input {leaf['number']!r} is a number that varies, which a .ingot file does not take", remedy='give it as a tensor, compile for one value of it, or save with format="exported_program"')
    for leaf in found["outputs"]:
        if "computed" in leaf:
            raise UnsupportedError("the model returns a size that comes from the values of a tensor, which a .ingot file does not hold")
    for what in ("inputs", "outputs"):
        for leaf in found[what]:
            if "constant" in leaf and not plan_signature.is_constant(leaf["constant"]):
                verb = "takes" if what == "inputs" else "returns"
                raise UnsupportedError(f"the model {verb} {leaf['constant']!r}, which a .ingot file does not keep", remedy='save it with format="exported_program"')


def inputs_of(slots) -> list[dict]:
    """What each flat input of a call is: a tensor (its place among the tensors), a number that may vary, or a constant."""
    tensors, inputs = 0, []
    for slot in slots:
        meta = slot.node.meta.get("val")
        if slot.kind == "input":
            inputs.append({"tensor": tensors})
            tensors += 1
        elif isinstance(meta, (torch.SymInt, torch.SymFloat)):
            inputs.append({"number": slot.name})  # for the torch graph around the engines; no engine takes it
        else:
            inputs.append({"constant": meta})
    return inputs


def same_constant(given, expected) -> bool:
    """Whether no operator can distinguish the two: same type, value and sign. 0.0 is not -0.0, and NaN equals NaN."""
    if type(given) is not type(expected):
        return False
    if isinstance(given, complex):
        return same_constant(given.real, expected.real) and same_constant(given.imag, expected.imag)
    if isinstance(given, float):
        return math.copysign(1, given) == math.copysign(1, expected) and (given == expected or given != given and expected != expected)
    return given == expected


def shown(constant) -> str:
    """A constant as text. Python itself writes no sign for NaN."""
    return "-nan" if isinstance(constant, float) and constant != constant and math.copysign(1, constant) < 0 else repr(constant)


def _size_of_inputs(value, f):
    """A size that the model returns, as an expression over axes of the inputs; "computed" if it is not one."""
    tensors = [s.node.meta["val"] for s in f.inputs if s.kind == "input"]
    found = places(((i, axis), size) for i, tensor in enumerate(tensors) for axis, size in enumerate(tensor.shape))
    text = size_text.text_of(value)
    if text is None or any(s not in found for s in value.free_symbols):
        return {"computed": True}
    axes = {}
    for s in value.free_symbols:
        place, of = found[s]
        axes[str(s)] = [*place] if of.plain else [*place, of.factor, of.offset]
    return {"size": {"text": text, "axes": axes}}


def size_function(size, tensors: int, where: str):
    """A function of the input tensors that computes a size the model returns."""
    expression, axes = plan_signature.size_of(size, where, tensors)

    def value(flat, position, axis, factor=1, offset=0):
        return (flat[position].shape[axis] - offset) // factor

    def compute(flat):
        return size_text.evaluate(expression, lambda name: value(flat, *axes[name]))

    return compute
