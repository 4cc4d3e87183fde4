"""The ways through ingot: each runs a program and returns the observations of its calls."""

from __future__ import annotations

import copy
import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
import values
from judge import Verdict
from observe import Seen, Thing, observe
from random_program import Program, module

import ingot
from ingot.engine import _library

LARGEST = 64  # the largest value of a varying size


class Refused(Exception):
    """ingot refuses the program with an error. about: text that names what it refuses."""

    def __init__(self, said: str, about: str = ""):
        super().__init__(said)
        self.about = about


def first_inputs(program: Program):
    given = values.given(program.sources, program.sizes[0], 0)
    return module(program, given), program.inputs_of(given)


def ranges(program: Program) -> dict[str, tuple[int, int]]:
    return {s: (min(call[s] for call in program.sizes), LARGEST) for s in program.sizes[0]}


def compiled_ahead(program: Program, **options):
    """Compiles with open sizes by ingot.Input. If inputs share memory or have another layout, by examples and torch's dynamic_shapes."""
    model, inputs = first_inputs(program)
    given = {"inputs": copies(inputs)}
    if program.dynamic:
        plain = all(s.base is None and s.layout[0] in ("dense", "offset") for s in program.inputs)
        given = by_input(program, inputs) if plain and program.seed % 3 else by_example(program, inputs)
    try:
        return model, ingot.compile(model, **given, min_block_size=1, **options, torch_executed_ops=program.in_torch)
    except ingot.OptionError:  # torch decomposes that operator
        return model, ingot.compile(model, **given, min_block_size=1, **options)


def by_input(program: Program, inputs):
    made = []
    for source, t in zip(program.inputs, inputs):
        open_axes = {axis: s for axis, s in enumerate(source.shape) if isinstance(s, str)}
        low, high = (list(t.shape), list(t.shape))
        for axis, symbol in open_axes.items():
            low[axis], high[axis] = ranges(program)[symbol]
        made.append(ingot.Input(min_shape=low, opt_shape=t.shape, max_shape=high, dtype=t.dtype, shared_dims=open_axes) if open_axes else t)
    return {"inputs": made}


def by_example(program: Program, inputs):
    dims = {symbol: torch.export.Dim(symbol, min=low, max=high) for symbol, (low, high) in ranges(program).items()}
    shapes = tuple({axis: dims[s] for axis, s in enumerate(source.shape) if isinstance(s, str)} or None for source in program.inputs)
    return {"inputs": copies(inputs), "dynamic_shapes": shapes}


def copies(tensors):
    """Copies of the tensors. Tensors that share memory still share it."""
    return copy.deepcopy(tensors)


def calls(program: Program, model, call, mark=False) -> list[Seen]:
    seen = []
    for number, sizes in enumerate(program.sizes):
        inputs = program.inputs_of(values.given(program.sources, sizes, number))
        for source, t in zip(program.inputs, inputs) if mark else ():
            for axis, size in enumerate(source.shape):
                if isinstance(size, str):
                    torch._dynamo.maybe_mark_dynamic(t, axis)
        with torch.no_grad():
            results = call(*inputs)
        seen.append(observe(program, model, inputs, list(results)))
    return seen


# ---- in this process


def ahead(program: Program, judge) -> Verdict:
    model, compiled = compiled_ahead(program)
    return judge.compare(calls(program, model, compiled))


def reference(program: Program, judge) -> Verdict:
    model, compiled = compiled_ahead(program, target="reference")
    return judge.compare(calls(program, model, compiled))


def just_in_time(program: Program, judge) -> Verdict:
    try:
        return judge.compare(compiled_calls(program, "ingot"))
    except Exception as problem:
        try:
            compiled_calls(program, "eager")
        except Exception as theirs:
            if type(theirs) is type(problem):
                raise Refused(f"torch.compile fails with backend='eager' too: {words(problem)}", f"{problem}") from None
        raise


def compiled_calls(program: Program, backend: str) -> list[Seen]:
    torch._dynamo.reset()
    model, _ = first_inputs(program)
    return calls(program, model, torch.compile(model, backend=backend), mark=program.dynamic)


# ---- by a file


def saved(program: Program, folder: str, whole=False, **options):
    """(path, whether one engine is the whole program, the number of engines). A file of a torch program if torch runs a part, or Refused."""
    model, compiled = compiled_ahead(program, **options)
    if whole and not compiled.report.whole:
        raise Refused("a part of it runs in torch, so that it has no file for the command line")
    if not compiled.report.whole:
        path = os.path.join(folder, "program.pt2")
        ingot.save(compiled, path, format="exported_program")
        return path, False, len(compiled.report.segments)
    path = os.path.join(folder, "program.ingot")
    ingot.save(compiled, path)
    return path, True, 1


def loaded(program: Program, judge) -> Verdict:
    with tempfile.TemporaryDirectory() as folder:
        path, whole, engines = saved(program, folder)
        module = ingot.load(path)
        # An engine from a file returns results with separate memory.
        return judge.compare(calls(program, Owned(module, program), module), memory=not whole and not engines)


class Owned:
    """A loaded module's buffers and parameters under the program's names. Tensors that the program does not write are not in all files."""

    def __init__(self, module, program):
        tensors = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        given = values.given(program.sources, program.sizes[0], 0)
        for source in program.sources:
            setattr(self, source.name, tensors.get(source.name, given[source.name]))


def command_line(program: Program, judge, target="cpu", pretend=None) -> Verdict:
    """The first call in a process without Python and torch: its results, and the buffers afterwards. On a pretended GPU (`pretend`: the folder of its driver) nothing is computed; it shows only
    that every step finds its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        path, *_ = saved(program, folder, whole=True, **({} if target == "cpu" else {"target": target}))
        given, folder = values.given(program.sources, program.sizes[0], 0), Path(folder)
        command = [_library.find("ingot"), "run", path, "-o", folder / "results", "--device", target.partition(":")[0]]
        for source in program.inputs:
            t = given[source.name].contiguous()
            np.save(folder / f"{source.name}.npy", (t.view(torch.uint16) if t.dtype is torch.bfloat16 else t).numpy())
            command += ["-i", f"{source.name}={folder}/{source.name}.npy"]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(pretend), "INGOT_PRETEND": "sm=90"} if pretend else None
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"ingot run: exit {done.returncode}: {done.stderr.strip()[:500]}")
        if pretend:
            return Verdict()
        engine, things = ingot.load_engine(path), {}
        places = [leaf["tensor"] for leaf in engine.signature["outputs"]]
        names = {f"result {i}": engine.output_names[place] for i, place in enumerate(places)}
        names |= {f"{state['name']} afterwards": state["name"] for state in engine.states()}
        for label, name in names.items():
            made = torch.from_numpy(np.load(folder / "results" / f"{name.replace('/', '_')}.npy"))
            expected = judge.eager.plain[0].things[label]
            made = made.view(torch.bfloat16) if expected.values.dtype is torch.bfloat16 else made
            things[label] = Thing(made, tuple(made.shape), [], 0)
        return judge.compare([Seen(things, set(), [None] * len(places))], memory=False)


def cuda_code(program: Program, judge) -> Verdict:
    """Compiles for an NVIDIA GPU, and runs the plan by the command line if there is one."""
    if torch.cuda.is_available():
        return command_line(program, judge, "cuda:sm_{}{}".format(*torch.cuda.get_device_capability()))
    return command_line(program, judge, "cuda:sm_90", pretend=Path(_library.find("ingot")).parent / "pretend")


IN_PROCESS = {"ahead": ahead, "torch.compile": just_in_time}
BY_FILE = {"file": loaded, "command line": command_line, "CUDA code": cuda_code}
ALL = {**IN_PROCESS, "reference": reference, **BY_FILE}


def words(problem: Exception) -> str:
    """An exception's kind and first line without names and numbers, so that similar ones are counted together."""
    line = next((part for part in str(problem).splitlines() if part.strip()), "")
    return f"{type(problem).__name__}: " + re.sub(r"\b[a-z]\d+(_\d+)?\b|p\d+_\w+", "x", re.sub(r"\d+", "0", line))[:160]
