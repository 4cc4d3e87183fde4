"""Compares every step of a compiled model with the reference interpreter, each by itself (docs/verify.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..base import debug
from ..engine import _engine
from ..engine._library import Options, lib, text_of
from ..engine._values import Tensor, fill, plain
from ..errors import InputError, UnsupportedError


@dataclass
class Verification:
    """The result of `verify`. steps: for each step its function, number, kernel, label, origin (the user's line), its error in roundings and the bound. first: the first step over its
    bound, or None."""

    target: str
    steps: list[dict]
    first: dict | None

    def __str__(self):
        lines = [_line("step", "kernel", "what it computes", "roundings", "bound", "", "where in the model")]
        for s in self.steps:
            compared = s["dtype"] is not None
            error = "-" if not compared else "not finite" if s["roundings"] is None else f"{s['roundings']:.3g}"
            lines.append(
                _line(f"{s['function']}:{s['step']}", s["kernel"], s["label"], error, f"{s['bound']:.3g}" if compared else "-", "OVER" if s["over"] else "", s["origin"])
            )
        return "\n".join(lines)


def _line(step, kernel, label, error, bound, over, origin):
    return f"{step:14} {kernel:14} {label:44} {error:>10} {bound:>10} {over:4} {origin}".rstrip()


def verify(model, *args, bound: float | None = None, bisect: bool = False, **kwargs):
    """Runs a compiled module, or an engine (on numpy arrays), step by step on these inputs and compares the results of each step with the reference.

    bound: the largest error that a float32 step may have, in roundings of the value's largest element (1000).
    bisect: True stops at the first step over its bound and returns that step, or None."""
    engine, arrays = (model, args) if isinstance(model, _engine.Engine) else _of_module(model, args, kwargs)
    found = _verify(engine, arrays, bound, bisect)
    return found.first if bisect else found


def _of_module(module, args, kwargs):
    from ..running.runners import OneCall

    kind = getattr(module, "_kind", None)
    if kind is None or not hasattr(module, "engine"):
        raise InputError(f"ingot.verify takes a compiled module or an engine, and this is of type {type(module).__name__}", remedy="give what ingot.compile or ingot.load gave")
    if module.engine is None or module.engine.device is None or not isinstance(getattr(kind, "way", None), OneCall):
        raise UnsupportedError("parts of this module run in torch or elsewhere, but verify runs the steps of one engine", remedy="ingot.save it, then `ingot verify FILE` runs each engine on random inputs")
    import torch

    from ..engine import plain_tensors

    flat = kind.form.flattened(args, kwargs)
    for value, name in zip(flat, module.engine.input_names):
        if not isinstance(value, torch.Tensor):
            raise plain_tensors.not_one(value, name)
    flat = [t.detach().resolve_neg().cpu() for t in flat]
    # bfloat16 has no numpy type: its bits go in as uint16
    return module.engine, [t.view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else t.numpy() for t in flat]


def _verify(engine, arrays, bound, bisect) -> Verification:
    import numpy as np

    bindings = engine.inputs()
    if len(arrays) != len(bindings):
        raise InputError(f"the engine takes {len(bindings)} inputs ({', '.join(b['name'] for b in bindings)}), but {len(arrays)} are given")
    inputs = (Tensor * max(len(arrays), 1))()
    keep = [fill(t, plain(a, "cpu", b, "input"), b, "input") for t, a, b in zip(inputs, arrays, bindings)]
    plan = engine._readable_plan()
    device = {"device": engine.device} if engine.device.startswith("cuda") else {}
    options = Options({**engine._plan.session_options, **device})
    with debug.for_library():
        text = text_of(lib().ingot_plan_verify_steps, plan.pointer, 0, options.pointer, inputs, len(arrays), float(bound or 0), int(bisect))
    del keep
    return Verification(**json.loads(text))
