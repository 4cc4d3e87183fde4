"""One model by one door: each way into ingot, in each mode, type and on each device. doors.py makes the ledger of them, tests/models/test_doors.py compares what they compile.

    case = Case(architecture, mode="no_grad", dtype="float32", device="cpu")
    made = enter(case, "torch.compile", build=True)   # reports, engines, and the call
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from architectures import LONGEST, Architecture

import ingot
from ingot.backend import ingot_backend
from ingot.engine import _library

MODES = ("no_grad", "grad", "inference_mode", "autocast")
DTYPES = ("float32", "float16", "bfloat16")
_LEAVES = ("weight", "input", "state", "literal")
AUTOCAST = {"cpu": torch.bfloat16, "cuda": torch.float16}


class Refused(Exception):
    """Torch's part of a door does not take the model. Nothing is said of ingot."""


@dataclass
class Case:
    """A model on a device, in a type and a mode."""

    architecture: Architecture
    mode: str = "no_grad"
    dtype: str = "float32"
    device: str = "cpu"

    @cached_property
    def _made(self):
        module, inputs = self.architecture.make()
        dtype = getattr(torch, self.dtype)
        module = module.to(self.device, dtype)
        for parameter in module.parameters():
            if parameter.is_floating_point():
                parameter.requires_grad_(True)
        return module, tuple(x.to(self.device, dtype if x.is_floating_point() else None) if isinstance(x, torch.Tensor) else x for x in inputs)

    @property
    def module(self) -> torch.nn.Module:
        return self._made[0]

    @property
    def inputs(self) -> tuple:
        return self._made[1]

    def context(self):
        """The mode, as a context manager."""
        contexts = contextlib.ExitStack()
        contexts.enter_context(torch.enable_grad() if self.mode == "grad" else torch.inference_mode() if self.mode == "inference_mode" else torch.no_grad())
        if self.mode == "autocast":
            contexts.enter_context(torch.autocast(self.device, AUTOCAST[self.device]))
        return contexts

    def eager(self):
        with self.context():
            return self.module(*self.inputs)

    def exact(self):
        """The result in float64."""
        module = copy.deepcopy(self.module).double()
        if hasattr(getattr(module, "inner", None), "set_experts_implementation"):
            module.inner.set_experts_implementation("eager")  # torch has no grouped product of float64
        with torch.no_grad():
            return module(*(x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in self.inputs))

    @cached_property
    def exported(self) -> torch.export.ExportedProgram:
        try:
            with self.context():
                return torch.export.export(self.module, self.inputs, strict=False)
        except Exception as problem:  # of many kinds
            raise Refused(f"torch.export does not take it: {first_line(problem)}") from problem

    def depth(self) -> int:
        """The longest accumulation: the sums of all weights one after another."""
        return max(1, sum(p[0].numel() for p in self.module.parameters() if p.dim() > 1))

    def open_inputs(self) -> list:
        """`ingot.Input`s with the architecture's open axes."""
        opened = self.architecture.open or tuple({0: "B"} if isinstance(x, torch.Tensor) else {} for x in self.inputs)

        def spec(x, axes):
            if not isinstance(x, torch.Tensor):
                return x
            low, high = list(x.shape), list(x.shape)
            for axis, letter in axes.items():
                low[axis], high[axis] = 1, LONGEST.get(letter, LONGEST["S"])
            return ingot.Input(min_shape=low, opt_shape=tuple(x.shape), max_shape=high, dtype=x.dtype, shared_dims=axes)

        return [spec(x, axes) for x, axes in zip(self.inputs, opened)]


@dataclass
class Made:
    """What a door gave: a report (as a dict) for each graph, the engines, and the call, if they were built."""

    reports: list[dict] = field(default_factory=list)
    engines: list = field(default_factory=list)
    call: Callable | None = None

    @property
    def operators(self) -> int:
        return sum(report["operators"] for report in self.reports)

    @property
    def in_torch(self) -> dict[str, dict]:
        """The operators that stay in torch: {target: {count, reason of the first}}."""
        found: dict[str, dict] = {}
        for report in self.reports:
            for node in report["nodes"]:
                if node["segment"] is None:
                    found.setdefault(node["target"], {"count": 0, "reason": node["reason"]})["count"] += 1
        return found

    @property
    def whole(self) -> bool:
        """Whether nothing stays in torch. torch.compile makes no graph of what it leaves to Python."""
        return bool(self.reports) and not self.in_torch

    @property
    def segments(self) -> int:
        return sum(len(report["segments"]) for report in self.reports)

    def primitives(self) -> Counter:
        """The canonical graphs' primitives with their attributes and types, without names, inputs, weights and literals."""
        found = Counter()
        for engine in filter(None, self.engines):
            for line in engine.graph.splitlines():
                if (said := re.fullmatch(r"%.* = (\w+)\(.*?\) \{(.*)\} : (.*?)(?: @\d+.*| #\d+.*)?", line)) and said[1] not in _LEAVES:
                    found[f"{said[1]} {{{said[2]}}} : {said[3]}"] += 1
        return found

    def steps(self) -> Counter:
        """The plans' steps: kernels with what they compute."""
        programs = [program for engine in filter(None, self.engines) for function in engine.inspect()["functions"] for program in function["programs"]]
        return Counter(f"{step['kernel']}: {step['label']}" for program in programs for step in program["steps"])

    def add(self, report, engine=None):
        self.reports.append(json.loads(report.to_json()))
        if engine is not None:
            self.engines.append(engine)


def _options(made: Made, build: bool) -> dict:
    """Options with which a door tells its report; without `build` it makes no engine."""
    return {} if build else {"dryrun": made.add}


def _ahead(what, inputs, build, **more) -> Made:
    made = Made()
    compiled = ingot.compile(what, inputs=inputs, **more, options=_options(made, build))
    if build:
        made.add(compiled.report, compiled.engine)
        made.call = compiled
    return made


def _just_in_time(case, build, dynamic) -> Made:
    made = Made()
    torch._dynamo.reset()

    @functools.wraps(ingot_backend)
    def backend(graph, examples):
        compiled = ingot_backend(graph, examples, options=_options(made, build))
        if build:
            made.add(compiled.report, compiled.engine)
        return compiled

    made.call = torch.compile(case.module, backend=backend, dynamic=dynamic)
    made.call(*case.inputs)
    return made


def _file(case, build) -> Made:
    """A `.pt2` file by its path. The command line reads it the same way."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.pt2")
        torch.export.save(case.exported, path)
        target = {} if case.device == "cpu" else {"target": "cuda:sm_" + "".join(map(str, torch.cuda.get_device_capability()))}
        made = Made([_library.Model.open(path).explain(target)])
        if build:
            made.call = ingot.compile(path)
            made.engines = [made.call.engine]
    return made


def _saved(case, build) -> Made:
    made = _ahead(case.module, list(case.inputs), build)
    if build:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.ingot")
            ingot.save(made.call, path)
            made.call = ingot.load(path)
        made.engines = [made.call.engine]
    return made


class _Warnings(logging.Handler):
    """What the drop-in warns of while it compiles."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record):
        self.texts.append(record.getMessage())

    def __enter__(self):
        logging.getLogger("torch_tensorrt").addHandler(self)
        return self

    def __exit__(self, *exception):
        logging.getLogger("torch_tensorrt").removeHandler(self)


def _torchscript(case, build) -> Made:
    import ingot.torch_tensorrt as torch_tensorrt

    try:
        script = torch.jit.trace(case.module, case.inputs, check_trace=False, strict=False)
    except Exception as problem:  # of many kinds
        raise Refused(f"torch.jit.trace does not take it: {first_line(problem)}") from problem
    with tempfile.TemporaryDirectory() as folder, _Warnings() as said:
        path = Path(folder) / "report.json"
        torch_tensorrt.ts.compile(script, inputs=list(case.inputs), min_block_size=1, dryrun=str(path))
        if not path.exists():
            raise Refused(said.texts[-1].split("; it runs as it was")[0])
        made = Made([json.loads(path.read_text())])
    if build:
        made.call = torch_tensorrt.ts.compile(script, inputs=list(case.inputs), min_block_size=1)
        if not made.in_torch:
            made.engines = [ingot.load_engine(torch_tensorrt.ts.convert_method_to_trt_engine(script, inputs=list(case.inputs)))]
    return made


def _decomposed(case, build) -> Made:
    exported = case.exported
    try:
        program = exported.run_decompositions()
    except Exception as problem:  # of many kinds
        raise Refused(f"torch's run_decompositions does not take it: {first_line(problem)}") from problem
    return _ahead(program, None, build)


TORCH_COMPILE = {"torch.compile": None, "torch.compile-dynamic": True}  # the doors, and torch.compile's `dynamic`

# The doors: functions of a case and of whether to build.
DOORS: dict[str, Callable[[Case, bool], Made]] = {
    **{door: functools.partial(_just_in_time, dynamic=dynamic) for door, dynamic in TORCH_COMPILE.items()},
    "compile": lambda case, build: _ahead(case.module, list(case.inputs), build),
    "compile-open": lambda case, build: _ahead(case.module, case.open_inputs(), build),
    "exported": lambda case, build: _ahead(case.exported, None, build),
    "decomposed": _decomposed,
    "pt2": _file,
    "saved": _saved,
    "torchscript": _torchscript,
}


def enter(case: Case, door: str, build: bool) -> Made:
    with case.context():
        return DOORS[door](case, build)


def torch_alone(case: Case, door: str) -> Callable:
    """torch's own part of a door of torch.compile: Dynamo's trace, whose graph runs as it is. The call, after the first one."""
    torch._dynamo.reset()
    call = torch.compile(case.module, backend="eager", dynamic=TORCH_COMPILE[door])
    with case.context():
        call(*case.inputs)
    return call


def first_line(problem: BaseException) -> str:
    """The type and the first line of an error, without torch.compile's wrapping."""
    inner = getattr(problem, "inner_exception", None) or problem
    text = str(inner).strip()
    return f"{type(inner).__name__}: {text.splitlines()[0] if text else ''}"[:200]
