"""The dispatcher op `ingot::execute`, and a fast call with plain tensors that bypasses the dispatcher."""

from __future__ import annotations

import os
import re
import weakref

import torch

from .. import errors
from ..base import processes, size_text
from ..errors import DeviceError, InputError, UnsupportedError
from ..torch_internals.tensors import IS_PROFILING, PROFILER, FakeTensor, count_of_modes
from . import _engine, _library, _torch_library, plain_tensors
from .result_memory import ResultMemory

_lock = processes.Lock()
_registry = None


def library():
    """Loads the op library once and teaches torch the op's shape rule."""
    global _registry
    if _registry is None:
        with _lock():
            if _registry is None:
                path = _library.find("libingot_torch.so")
                try:
                    torch.ops.load_library(path)
                except OSError as problem:
                    raise DeviceError(
                        f"the torch op library could not be loaded: {problem}",
                        remedy="it needs torch 2.10 or later; `ingot doctor` shows what was found",
                    ) from None
                torch.library.register_fake("ingot::execute")(_fake)
                for name in ("run", "run_with", "execute"):
                    torch.library.register_vmap(f"ingot::{name}")(_no_vmap)
                _registry = _torch_library.TorchRegistry(path)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=_in_child)
    return _registry


def _in_child():
    """Sets torch to one thread in a child of fork(). The child lacks torch's threads, and libgomp would wait for them for ever."""
    if _registry.used():
        torch.set_num_threads(1)


def _fake(inputs, state, outputs, weights, sizes, plan, function):
    # Fake tensors are accepted while torch traces; a plain meta tensor has no values to run on.
    if any(type(t) is torch.Tensor and t.is_meta for t in inputs) and not any(t.is_meta for t in outputs):
        raise InputError("an input is on the meta device, which holds no values", remedy="give CPU tensors")


def _no_vmap(info, in_dims, *args, **kwargs):
    raise UnsupportedError(
        "torch.vmap cannot map over a compiled module: its engine is made for whole batches",
        remedy="give the module the batch itself, or compile a module whose forward calls torch.vmap on the model",
    )


_TAGGED = re.compile(r"\[ingot:(\d+)\] (.*?)(?:\n  at (.*?))?(?:\n  remedy: (.*?))?(?:\nException raised from.*)?$", re.S)

interrupts: list[KeyboardInterrupt] = []  # that came while an op called back


class SingularError(errors.SingularError, torch.linalg.LinAlgError):
    """What `except torch.linalg.LinAlgError` catches around eager's call, it catches around an engine's."""


def translate(problem: RuntimeError):
    """The ingot.Error behind an exception that came through the dispatcher, or the exception itself."""
    found = _TAGGED.search(str(problem))
    if not found:
        return problem
    code, message, origin, remedy = found.groups(default="")
    error = errors.by_code(int(code), message.rstrip(), origin, remedy.rstrip())
    if type(error) is errors.SingularError:
        error = SingularError(error.message, error.origin, error.remedy)
    return interrupts.pop() if isinstance(error, errors.CancelledError) and interrupts else error


def count(n, noun):
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def given(values):
    return f"{len(values)} {'is' if len(values) == 1 else 'are'} given"


_LATE = "an earlier call: "  # the error belongs to an earlier call
_Tensor, _is_compiling = torch.Tensor, torch.compiler.is_compiling


class Runner:
    """Runs one function of an engine on a flat list of tensors and returns the flat list of output tensors."""

    def __init__(self, engine: "_engine.Engine", function: int = 0):
        registry = library()
        self._id = registry.register(engine)
        self._registry = registry  # now there is an engine to unregister
        self._engine, self._device = engine, torch.device(engine.device)
        self._plan = torch.tensor(registry.plan_words(self._id), dtype=torch.int64, device="cpu").view(torch.uint8)
        self._function = function
        # If sizes are read from data, the op makes the results after the run.
        self._open = any(engine.is_open(function, i) for i in range(len(engine.outputs(function))))
        self._allocate = None if self._open else _allocator(engine, function, self._device)
        self._execute = torch.ops.ingot.execute.default
        self._nothing: list = []
        self.ahead: list = []  # an ResultMemory, if the results of the next call are allocated after a call; changed in place, because the quick call has this very list
        written = [bool(b.get("written")) for b in engine.inputs(function)]
        # Positions of written tensors in a flat call: written inputs, then the states, which follow all inputs.
        self._state = [i for i, w in enumerate(written) if w] + list(range(len(written), len(written) + len(engine.states(function))))
        self._read = [i for i, w in enumerate(written) if not w]
        # Plain tensors go straight to the kernels. Tracing (fake tensors, torch.compile) calls the op, whose shapes torch can infer.
        self.plain = self._plain_call() if not self._state else None

    def _plain_call(self):
        """A function from a sequence of plain tensors, one for each input, to the results. Everything that it looks up is a local or a default, because after a
        run the processor's caches hold little of Python."""
        exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # torch 2.10 and later
        direct = self._registry.direct(exchange, self._id, self._function) if exchange is not None else None
        run, plan, function, explain = torch.ops.ingot.run.default._op, self._plan, self._function, self._explain
        # Dispatch modes and the profiler need the op. Only a floating-point tensor can be a negative view, which the dispatcher resolves.
        modes, profiler, is_profiling = count_of_modes, PROFILER, IS_PROFILING
        bindings = self._engine.inputs(function)
        floats, count = [i for i, binding in enumerate(bindings) if "float" in binding["dtype"]], len(bindings)

        watch, ahead, into = self._engine.watch, self.ahead, weakref.WeakMethod(self._into)
        same = watch.same if watch is not None else lambda: True

        def call(flat):
            if not same():  # checked here and not when the op calls back, because an interrupt that comes while C enters Python is lost
                watch.follow()
            if ahead:
                return into()(flat)
            if direct is not None and not modes() and not profiler[is_profiling] and len(flat) == count:
                for i in floats:
                    if flat[i].is_neg():
                        break
                else:
                    try:
                        return direct(flat if type(flat) is tuple else tuple(flat))
                    except RuntimeError as problem:
                        if _LATE in str(problem) or interrupts:
                            raise explain(problem, flat) from None
                        # otherwise the op raises the error
            try:
                return run(flat if type(flat) is list else list(flat), plan, function)
            except RuntimeError as problem:
                raise explain(problem, flat) from None

        return call

    def __call__(self, flat):
        if self.plain is not None and not _is_compiling():
            for tensor in flat:
                if type(tensor) is not _Tensor:
                    break
            else:
                return self.plain(flat)
        return self._call_open(flat) if self._open else self._into(flat)

    def allocate_ahead(self, on: bool, inner: bool):
        """Whether the results of the next call are allocated right after a call: see ResultMemory. A call whose sizes are read from data always gets memory while it runs."""
        self.ahead[:] = [ResultMemory(self._allocate, self._device, inner)] if on and not self._open else []

    def _into(self, flat):
        """A call that writes its results to memory that was allocated before it."""
        nothing = self._nothing
        ahead = next(iter(self.ahead), None)
        kind = ahead.kind(flat) if ahead is not None else None
        try:
            outputs = self._allocate(flat) if kind is None else ahead.take(kind, flat)
        except (RuntimeError, IndexError, AttributeError, TypeError, OverflowError) as problem:
            raise self._explain(problem, flat, allocating=True) from None
        try:
            if self._state:
                self._execute([flat[i] for i in self._read], [flat[i] for i in self._state], outputs, nothing, nothing, self._plan, self._function)
            else:
                self._execute(flat if type(flat) is list else list(flat), nothing, outputs, nothing, nothing, self._plan, self._function)
        except (RuntimeError, IndexError, AttributeError, TypeError, AssertionError) as problem:
            raise self._explain(problem, flat) from None
        if kind is not None:
            ahead.after(kind, flat, outputs)
        return outputs

    def _call_open(self, flat):
        if _is_compiling() or any(isinstance(t, FakeTensor) for t in flat):
            raise UnsupportedError(
                "sizes of this module's results are read from data while it runs, and torch cannot trace its engine",
                remedy="call it outside of what is traced, or save it with ingot.save as format='ingot'",
            )
        try:
            return torch.ops.ingot.run_with([flat[i] for i in self._read], [flat[i] for i in self._state], self._plan, self._function)
        except RuntimeError as problem:
            raise self._explain(problem, flat) from None

    def _explain(self, problem, flat, allocating=False):
        inputs = self._engine.inputs(self._function)
        names = [b["name"] for b in inputs]
        if len(flat) != len(names) + len(self._engine.states(self._function)):
            return InputError(f"the engine takes {count(len(names), 'tensor')} ({', '.join(names)}), but {given(flat)}")
        for name, value, binding in zip(names, flat, inputs):
            if not isinstance(value, torch.Tensor):
                return plain_tensors.not_one(value, name)
            if not isinstance(value, FakeTensor) and (why := plain_tensors.why_not(value, name)):
                return InputError(f"input {name!r} {why[0]}", remedy=why[1])
            if value.device != self._device:
                here, remedy = self._device, f"give {name}.to('{self._device}')"
                if self._device.type == "cpu":
                    here, remedy = "the CPU", f'give {name}.cpu(), or compile on the GPU: model.cuda(), or ingot.Input(..., device="cuda") for a model without tensors'
                return InputError(f"input {name!r} is on {value.device}, but the engine runs on {here}", remedy=remedy)
            if value.dim() != len(binding["dims"]):
                return InputError(f"input {name!r} has rank {value.dim()}, but the engine takes rank {len(binding['dims'])}: [{', '.join(map(str, binding['dims']))}]")
            if str(value.dtype) != f"torch.{binding['dtype']}":
                return InputError(f"input {name!r} is {str(value.dtype).removeprefix('torch.')}, but the engine takes {binding['dtype']}", remedy=f"convert it to {binding['dtype']}")
        for name, value in zip(names, flat):
            if isinstance(value, FakeTensor) and isinstance(problem, AssertionError):
                return InputError(f"input {name!r} is a FakeTensor, and the module's weights hold values", remedy="FakeTensorMode(allow_non_fake_inputs=True)")
        states = [b["name"] for b in self._engine.states(self._function)]
        for what, i in zip([*(f"input {name!r}" for name in names), *(f"buffer {name!r}" for name in states)], range(len(flat))):
            if i in self._state and flat[i].is_neg():
                return InputError(f"{what} is a negative view (as the imaginary part of a conjugate is), and the model writes to it", remedy="give its resolve_neg()")
        if allocating and type(problem) in (RuntimeError, TypeError, OverflowError):
            return errors.MemoryError(f"the results for these inputs cannot be allocated: {str(problem).splitlines()[0]}", remedy="use smaller inputs, or free memory")
        return translate(problem) if isinstance(problem, RuntimeError) else problem

    def __del__(self):
        registry = getattr(self, "_registry", None)
        if registry is not None:
            registry.unregister(self._id)


def _solved(size, symbol):
    """An expression for a symbol's value, from the expression of its axis's size."""
    if symbol["offset"]:
        size = f"({size} - {symbol['offset']})"
    return size if symbol["factor"] == 1 else f"{size} // {symbol['factor']}"


def _allocator(engine, function, device):
    """A function from the inputs to empty outputs. The plan's size expressions become one Python function, built only from names and operations chosen here."""
    outputs = engine.outputs(function)
    places = {name: _solved(f"x[{s['input']}].shape[{s['axis']}]", s) for name, s in engine.symbols(function).items() if "input" in s}
    names = {n for b in outputs for d in b["dims"] if isinstance(d, str) for n in re.findall(r"[A-Za-z_]\w*(?!\w|\()", d)}
    if missing := sorted(names - set(places)):
        raise InputError(f"size {missing[0]!r} of an output is not the size of any input axis")
    lines, made, dtypes, known = ["def allocate(x):"], [], {}, {}

    def value(text):
        if text not in known:
            known[text] = f"v{len(known)}"
            lines.append(f"    {known[text]} = {text}")
        return known[text]

    def compute(operator, *operands):
        sign = {"+": "{} + {}", "-": "{} - {}", "*": "{} * {}", "negate": "-{}"}.get(operator, operator + "({}, {})")
        return value(sign.format(*operands))

    def size(text, where):
        return text if isinstance(text, int) else size_text.evaluate(size_text.parse(text, places, where), lambda name: value(places[name]), compute)

    for i, binding in enumerate(outputs):
        dtype = dtypes.setdefault(binding["dtype"], f"d{len(dtypes)}")
        shape = "(" + "".join(f"{size(d, f'size {axis} of output {i}')}," for axis, d in enumerate(binding["dims"])) + ")"
        made.append(f"empty({shape}, dtype={dtype}, device=device)")
    lines.append(f"    return [{', '.join(made)}]")
    scope = {
        "device": device,
        "empty": torch.empty,
        "floordiv": size_text.floordiv,
        "mod": size_text.mod,
        "min": min,
        "max": max,
        **{short: getattr(torch, name) for name, short in dtypes.items()},
    }
    exec("\n".join(lines), scope)  # noqa: S102 - text made above, nothing of a file's in it but numbers
    return scope["allocate"]
