"""A random program: input tensors, steps that each call one operator, and results. All of it is data, from which a module, its text, and a script that anybody can run are made."""

from __future__ import annotations

import itertools
import linecache
import zlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

import torch
import values
from values import Source

WIDE = {torch.float16, torch.bfloat16, torch.float32}


@dataclass(frozen=True)
class Ref:
    """A reference to a tensor by name: a source, or a result of a step."""

    name: str


@dataclass(frozen=True)
class Size:
    """`name.shape[axis] * times + plus`: known when the program is called."""

    name: str
    axis: int
    times: int = 1
    plus: int = 0


@dataclass
class Step:
    """`names = target(*args, **kwargs)`; listed: the operator returns several tensors."""

    target: str  # "aten.add.Tensor"
    args: list
    kwargs: dict
    names: list[str]
    listed: bool = False


@dataclass
class Program:
    seed: int
    sources: list[Source]
    steps: list[Step]
    results: list[str]
    sizes: list[dict[str, int]] = field(default_factory=lambda: [{}, {}])  # of the symbols, call by call

    @property
    def dynamic(self) -> bool:
        return any(isinstance(size, str) for source in self.sources for size in source.shape)

    @property
    def writes(self) -> bool:
        return any(operator(step.target)._schema.is_mutable for step in self.steps)

    @property
    def in_torch(self) -> list[str]:
        """One operator of every fifth program, which runs in torch, so that engines and torch share the program. It stays the same when other steps are left out."""
        chosen = sorted(self.steps, key=lambda step: zlib.crc32(f"{self.seed} {step.names}".encode()))[-1:] if self.seed % 5 == 4 else []
        return [step.target for step in chosen]

    @property
    def inputs(self) -> list[Source]:
        return [s for s in self.sources if s.role == "input"]

    def inputs_of(self, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        return [given[s.name] for s in self.inputs]


def operator(target: str) -> torch._ops.OpOverload:
    found = torch.ops
    for part in target.split("."):
        found = getattr(found, part)
    return found


def references(value):
    """Every Ref and Size in an argument."""
    if isinstance(value, (Ref, Size)):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from references(part)


def read_by(step: Step) -> set[str]:
    return {r.name for value in (*step.args, *step.kwargs.values()) for r in references(value)}


def renamed(value, names: dict[str, str]):
    if isinstance(value, (Ref, Size)):
        return replace(value, name=names.get(value.name, value.name))
    return [renamed(part, names) for part in value] if isinstance(value, (list, tuple)) else value


def merged(programs: list[Program]) -> Program:
    """Independent programs as one, so that they share the cost of a capture. They have equal numbers of calls."""
    whole = Program(programs[0].seed, [], [], [], [dict(s) for s in programs[0].sizes])
    for number, program in enumerate(programs):
        defined = [s.name for s in program.sources] + [n for step in program.steps for n in step.names]
        names = {n: f"p{number}_{n}" for n in defined}
        symbols = {symbol: f"{symbol}{number}" for symbol in program.sizes[0]}
        for source in program.sources:
            shape = tuple(symbols.get(s, s) for s in source.shape)
            whole.sources.append(replace(source, name=names[source.name], shape=shape, base=names.get(source.base)))
        for step in program.steps:
            args, kwargs = renamed(step.args, names), {k: renamed(v, names) for k, v in step.kwargs.items()}
            whole.steps.append(Step(step.target, args, kwargs, [names[n] for n in step.names], step.listed))
        whole.results += [names[n] for n in program.results]
        for mine, theirs in zip(whole.sizes, program.sizes):
            mine.update({symbols[s]: n for s, n in theirs.items()})
    whole.sizes = [{s: n for s, n in sizes.items() if any(s in source.shape for source in whole.sources)} for sizes in whole.sizes]
    return whole


# ---- text


def text(value, wide: bool, owned: set[str]) -> str:
    """An argument as Python code. owned: the names that are attributes of the module."""
    if isinstance(value, Ref):
        return f"self.{value.name}" if value.name in owned else value.name
    if isinstance(value, Size):
        size = f"{text(Ref(value.name), wide, owned)}.shape[{value.axis}]"
        size += f" * {value.times}" if value.times != 1 else ""
        return size + (f" + {value.plus}" if value.plus else "")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(text(part, wide, owned) for part in value) + "]"
    if isinstance(value, torch.dtype):
        return str(torch.float64 if wide and value in WIDE else value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    return f"float('{value}')" if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))) else repr(value)


def forward_text(program: Program, wide=False, watched=False) -> str:
    owned = {s.name for s in program.sources if s.role != "input"}
    lines = [f"def forward({', '.join(['self', *(s.name for s in program.inputs)])}):"]
    for number, step in enumerate(program.steps):
        args = [text(a, wide, owned) for a in step.args] + [f"{k}={text(v, wide, owned)}" for k, v in step.kwargs.items()]
        made = ", ".join(step.names) + ("," if step.listed and len(step.names) == 1 else "")
        lines.append(f"    {made} = torch.ops.{step.target}({', '.join(args)})")
        if watched:
            lines.append(f"    {made} = self.watch({number}, ({made}))")
    returned = ", ".join(text(Ref(name), wide, owned) for name in program.results)
    return "\n".join([*lines, f"    return ({returned},)", ""])


def class_text(program: Program) -> str:
    lines = ["class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    for source in program.sources:
        if source.role == "weight":
            lines.append(f"        self.{source.name} = torch.nn.Parameter({source.name}, requires_grad=False)")
        elif source.role == "buffer":
            lines.append(f"        self.register_buffer('{source.name}', {source.name})")
        elif source.role == "constant":
            lines.append(f"        self.{source.name} = {source.name}")
    return "\n".join(lines) + "\n\n" + "\n".join("    " + line if line else line for line in forward_text(program).splitlines()) + "\n"


# ---- modules

_numbers = itertools.count()


@lru_cache(maxsize=64)
def _compiled(source_text: str):
    name = f"<program {next(_numbers)}>"
    linecache.cache[name] = (len(source_text), None, source_text.splitlines(True), name)  # so that errors and traces show source lines
    scope = {"torch": torch}
    exec(compile(source_text, name, "exec"), scope)
    return scope["forward"]


def module(program: Program, given: dict[str, torch.Tensor], wide=False, watch=None) -> torch.nn.Module:
    """given: the tensors of the sources that are not inputs. watch(number, result) -> result is called after every step."""
    forward = _compiled(forward_text(program, wide, watch is not None))
    made = type("Model", (torch.nn.Module,), {"forward": forward})()
    for source in program.sources:
        if source.role == "weight":
            setattr(made, source.name, torch.nn.Parameter(given[source.name], requires_grad=False))
        elif source.role == "buffer":
            made.register_buffer(source.name, given[source.name])
        elif source.role == "constant":
            setattr(made, source.name, given[source.name])
    if watch is not None:
        made.watch = watch
    return made.eval()


# ---- scripts


def script(program: Program, way: str, why: str) -> str:
    """A program that shows eager's results and ingot's beside each other."""
    lines = [f"# {line}" for line in why.splitlines()]
    lines += ["import copy", "", "import torch", "from torch import inf, nan", "", "import ingot", "", ""]
    given = values.given(program.sources, program.sizes[0], 0)
    lines += values.text(given, program.sources)
    lines += ["", "", *class_text(program).splitlines(), "", ""]
    calls = []
    for number, sizes in enumerate(program.sizes):
        tensors = {s.name: t for s, t in zip(program.inputs, program.inputs_of(values.given(program.sources, sizes, number)))}
        calls.append((number, tensors))
    inputs = ", ".join(s.name for s in program.inputs)
    options = f"min_block_size=1, torch_executed_ops={program.in_torch}" if program.in_torch else "min_block_size=1"
    ranges = "{" + ", ".join(f"{s.name!r}: {[a for a, n in enumerate(s.shape) if isinstance(n, str)]}" for s in program.inputs) + "}"
    lines += ["model, reference = Model().eval(), copy.deepcopy(Model()).eval()", f"inputs = [{inputs}]"]
    if way.startswith("torch.compile"):
        lines += [f"compiled = torch.compile(model, backend='ingot', dynamic={True if program.dynamic else None})"]
    elif program.dynamic:
        lines += [
            f"open_axes = {ranges}",
            "wanted = []",
            "for name, t in zip(open_axes, inputs):",
            "    low, high = ([(bound if axis in open_axes[name] else size) for axis, size in enumerate(t.shape)] for bound in (1, 64))",
            f"    wanted.append(ingot.Input(min_shape=low, opt_shape=t.shape, max_shape=high, dtype=t.dtype, shared_dims={{axis: symbol for axis, symbol in {shared(program)!r}[name].items()}}))",
            f"compiled = ingot.compile(model, inputs=wanted, {options})",
        ]
    else:
        lines += [f"compiled = ingot.compile(model, inputs=copy.deepcopy(inputs), {options})"]
    lines += ["", "", "def sharing(t, inputs, results):", "    memory = t.untyped_storage().data_ptr()"]
    lines += ["    owned = [t for _, t in (*model.named_buffers(), *reference.named_buffers())]"]
    lines += ["    return [[o.untyped_storage().data_ptr() == memory for o in others] for others in (inputs, results, owned)]"]
    lines += ["", "", "def show(call, *inputs):", "    mine, theirs = copy.deepcopy(inputs), copy.deepcopy(inputs)", "    with torch.no_grad():"]
    lines += ["        expected, result = reference(*theirs), compiled(*mine)", "    print('call', call)"]
    lines += ["    for number, (e, r) in enumerate(zip(expected, result)):"]
    lines += ["        print(' eager', number, e.dtype, e.stride(), sharing(e, theirs, expected), e.tolist())"]
    lines += ["        print(' ingot', number, r.dtype, r.stride(), sharing(r, mine, result), r.tolist())"]
    lines += ["    for e, r in zip(theirs, mine):", "        print(' inputs after', e.tolist(), r.tolist())"]
    lines += ["    for (name, e), (_, r) in zip(reference.named_buffers(), model.named_buffers()):", "        print(' buffer after', name, e.tolist(), r.tolist())", "", ""]
    for number, tensors in calls:
        if number:
            lines += values.text(tensors, program.inputs)
        lines.append(f"show({number}, {inputs})" if inputs else f"show({number})")
    return "\n".join(lines) + "\n"


def shared(program: Program) -> dict[str, dict[int, str]]:
    return {s.name: {axis: size for axis, size in enumerate(s.shape) if isinstance(size, str)} for s in program.inputs}
