"""The dispatcher op `ingot::execute` and the fast way from tensors to it."""

from __future__ import annotations

import re
import threading

import torch

from . import _engine, errors
from .errors import DeviceError, InputError

_lock = threading.Lock()
_library = None


def library():
    """Loads the op library once and teaches torch the op's shape rule."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                path = _engine.find("libingot_torch.so")
                try:
                    torch.ops.load_library(path)
                except OSError as problem:
                    raise DeviceError(
                        f"the torch op library could not be loaded: {problem}",
                        remedy="it needs torch 2.10 or later; `ingot doctor` shows what was found",
                    ) from None
                torch.library.register_fake("ingot::execute")(lambda inputs, state, outputs, weights, sizes, plan, function: None)
                _library = _engine.TorchRegistry(path)
    return _library


_TAGGED = re.compile(r"\[ingot:(\d+)\] (.*)", re.S)


def translate(problem: RuntimeError):
    """The error of ours behind an exception that came through the dispatcher, or the exception itself."""
    found = _TAGGED.search(str(problem))
    if not found:
        return problem
    text = found.group(2).split("\nException raised from")[0]
    return errors.by_code(int(found.group(1)), text.rstrip())


class Runner:
    """Runs one function of an engine on a flat list of tensors and returns the flat list of output tensors."""

    def __init__(self, engine: "_engine.Engine", function: int = 0):
        registry = library()
        self._registry = registry
        self._id = registry.register(engine)
        self._engine = engine
        self._plan = torch.tensor(_engine.plan_tensor_words(self._id), dtype=torch.int64).view(torch.uint8)
        self._function = function
        self._allocate = _allocator(engine, function)
        self._execute = torch.ops.ingot.execute.default
        self._nothing: list = []

    def __call__(self, flat):
        nothing = self._nothing
        try:
            outputs = self._allocate(flat)
            self._execute(flat if type(flat) is list else list(flat), nothing, outputs, nothing, nothing, self._plan, self._function)
        except (RuntimeError, IndexError, AttributeError, TypeError) as problem:
            raise self._explain(problem, flat) from None
        return outputs

    def _explain(self, problem, flat):
        names = self._engine.input_names
        if len(flat) != len(names):
            return InputError(f"the engine takes {len(names)} tensors ({', '.join(names)}), but {len(flat)} are given")
        for name, value, binding in zip(names, flat, self._engine.inputs()):
            if not isinstance(value, torch.Tensor):
                return InputError(f"input {name!r} is a {type(value).__name__}, but the engine takes a tensor there")
            if value.dim() != len(binding["dims"]):
                return InputError(f"input {name!r} has rank {value.dim()}, but the engine takes rank {len(binding['dims'])}: [{', '.join(map(str, binding['dims']))}]")
        return translate(problem) if isinstance(problem, RuntimeError) else problem

    def __del__(self):
        registry = getattr(self, "_registry", None)
        if registry is not None:
            registry.unregister(self._id)


def _allocator(engine, function):
    """A function of the inputs that makes empty outputs: the size expressions of the plan, compiled to one Python lambda."""
    inputs, outputs = engine.inputs(function), engine.outputs(function)
    places: dict[str, str] = {}
    for i, binding in enumerate(inputs):
        for axis, size in enumerate(binding["dims"]):
            if isinstance(size, str) and size.isidentifier():
                places.setdefault(size, f"x[{i}].shape[{axis}]")
    names = sorted({n for b in outputs for d in b["dims"] + b.get("strides", []) if isinstance(d, str) for n in re.findall(r"[A-Za-z_]\w*", d)} - {"floordiv", "mod", "min", "max"})
    missing = [n for n in names if n not in places]
    if missing:
        raise InputError(f"size {missing[0]!r} of an output is not the size of any input axis")
    made = []
    dtypes = {}
    for binding in outputs:
        dtype = dtypes.setdefault(binding["dtype"], f"d{len(dtypes)}")
        shape = "(" + "".join(f"{d}," for d in binding["dims"]) + ")"
        if binding.get("strides"):
            strides = "(" + "".join(f"{d}," for d in binding["strides"]) + ")"
            made.append(f"empty_strided({shape}, {strides}, dtype={dtype})")
        else:
            made.append(f"empty({shape}, dtype={dtype})")
    lines = ["def allocate(x):"] + [f"    {n} = {places[n]}" for n in names] + [f"    return [{', '.join(made)}]"]
    scope = {
        "empty": torch.empty,
        "empty_strided": torch.empty_strided,
        "floordiv": lambda a, b: a // b,
        "mod": lambda a, b: a % b,
        "min": min,
        "max": max,
        **{short: getattr(torch, name) for name, short in dtypes.items()},
    }
    exec("\n".join(lines), scope)  # noqa: S102 - text made above from checked size expressions
    return scope["allocate"]
