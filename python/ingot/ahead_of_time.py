"""`ingot.compile` and `ingot.explain`: a model, an exported program or a `.pt2` file becomes an `ingot.Module`.

Four steps: read the caller's inputs (caller_inputs.py), export the model or match a program with them (export.py, program.py), give ranges (ranges.py), compile.
"""

from __future__ import annotations

import difflib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import autocast_options
from .base import progress, structure
from .capture import autocast, devices, fix, training
from .capture.caller_inputs import Given, read
from .capture.export import export
from .capture.fixes import order
from .capture.functional import NotFunctional, from_exported
from .capture.passes import applied
from .capture.program import Program, match, paired
from .capture.ranges import need_replay, ranges_of, set_ranges
from .capture.signature import as_text, signature_of
from .capture.traced import Traced
from .capture.tracing import alone
from .capture.writer import write
from .engine import _engine, _library, _op, _values, plan_signature
from .errors import InputError, OptionError, UnsupportedError
from .module.arguments import parameters_of, parameters_of_program
from .module.module import Module
from .module.module_kinds import Exported, FromModel, FromPlan, form_of
from .precision import accuracy, low_precision
from .running.assemble import assemble, in_torch, split_dryrun
from .running.report import Report
from .saving.torch_archive import load_program, names_cuda

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .inputs import Input
    from .option_types import Options

    Inputs = torch.Tensor | Input | Sequence[torch.Tensor | Input | int | float | bool | None | Sequence[Any] | Mapping[Any, Any]]

_functional = alone(from_exported)


@progress.shown
def compile(
    module: torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str],
    inputs: Inputs | None = None,
    *,
    arg_inputs: Inputs | None = None,
    kwarg_inputs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    strict: bool = False,
    passes: Sequence[Callable[[torch.fx.GraphModule], torch.fx.GraphModule | None]] = (),
    output_names: Sequence[str] | None = None,
    options: Options | None = None,
    **option: Unpack[Options],
) -> Module:
    """Compiles a model ahead of time.

    Arguments:
        module: an nn.Module, a torch.export.ExportedProgram, or the path of a `.pt2` file. **A `.pt2` file is a torch program: if parts of it stay in torch,
            torch reads it, which may run any code that its maker wants.**
        inputs (or arg_inputs): sequence of the positional inputs. Each is an `ingot.Input`, a tensor (for its shape and dtype), an int, float, bool or
            None, or a list, tuple or dict of those. Not needed for an ExportedProgram.
        kwarg_inputs: the keyword inputs by name.
        dynamic_shapes: as for torch.export.export, instead of ranges in `Input`.
        strict: passed to torch.export.export.
        passes: functions that change the exported program's torch.fx.GraphModule, in order. Each returns the GraphModule, or None if it changed it in place.
            The changed graph is exported again.
        output_names: names of the results that are tensors, in order. A file has them, for C, C++ and the command line.
        options, **option: see `ingot.options()`. target="cuda:sm_90" for a model on the CPU makes a module that can only be saved, on any machine
            with NVRTC; calling it is a DeviceError. With target=["cpu", "cuda:sm_90"] the module runs on the CPU, and the file on both.
            A target may be a torch.device: torch.device("cuda") means the GPU at hand.

    Returns an `ingot.Module` that is called like the model.

    The weights are the model's own tensors, not copies. The next call and the next save use the current values: after an optimizer's step, `p.add_()`,
    `p.copy_()`, load_state_dict or `p.data = other`, and after the model got another parameter, buffer or layer of the same name, dtype and shape. A call
    after such a change prepares the weights anew. With another dtype or shape, or if tied weights now differ, a call is an InputError. Writes are noticed
    if torch counts them or, in the CPU's memory, if they change the first, the middle or the last element. After other writes by `p.data.add_()`, NumPy or
    DLPack, or to tensors of torch.inference_mode, call `update_weights`.

    Other changes of the model are not followed: after a change of operators, parametrizations or hooks compile it again.

    Operators without an engine run in torch. This is logged once, and `.report` lists them. With fallback="error" they raise UnsupportedError instead, which
    lists every one with the lines that use it. Also raises InputError and OptionError.
    """
    options = _merge(options, option)
    given = read(inputs, arg_inputs, kwarg_inputs)
    if isinstance(module, (str, os.PathLike)):
        path = os.fspath(module)
        return _compile_file(path, given, options) if not passes and output_names is None else _compile_program_in(path, given, options, passes, output_names)
    program = _after(passes, options, _program_of(module, given, dynamic_shapes, strict, options), given)
    if isinstance(module, torch.export.ExportedProgram):
        return _compile_program(program, options, parameters_of_program(module), output_names)
    compiled = _compile_program(program, options, parameters_of(module.forward), output_names)
    alone(compiled._kind.owned_by)(module)  # while another thread traces the same model, its weights are fake
    return compiled


def explain(
    module: torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str],
    inputs: Inputs | None = None,
    *,
    arg_inputs: Inputs | None = None,
    kwarg_inputs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    passes: Sequence[Callable[[torch.fx.GraphModule], torch.fx.GraphModule | None]] = (),
    options: Options | None = None,
    **option: Unpack[Options],
) -> Report:
    """An `ingot.Report`: what `ingot.compile` with the same arguments would run where, and why. Nothing is built."""
    options = _merge(options, option)
    given = read(inputs, arg_inputs, kwarg_inputs)
    if isinstance(module, (str, os.PathLike)):
        module = _program_in(module)
    parameters = parameters_of_program(module) if isinstance(module, torch.export.ExportedProgram) else parameters_of(module.forward) if isinstance(module, torch.nn.Module) else []
    program = _after(passes, options, _program_of(module, given, dynamic_shapes, False, options), given).exported
    try:
        functional = _functional(program)
    except NotFunctional as problem:
        return in_torch(program.graph, problem.message, {k: v for k, v in options.items() if k not in ("dryrun", "fallback")})
    flat_of = _form({**signature_of(program, functional), "parameters": parameters}, program).flattened
    options, functional = low_precision.resolved(split_dryrun(options)[1], functional, flat_of, program)
    options = devices.placed(options, functional.device, for_file=True)
    captured = write(functional, options["target"])
    return Report(_library.Model.from_json(captured.json, captured.weights).explain(options))


def _program_of(module, given: Given | None, dynamic_shapes, strict, options) -> Program:
    if isinstance(module, torch.export.ExportedProgram):
        return match(module, given)
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            "a ScriptModule has no Python code that torch.export could trace",
            remedy="compile the module that was scripted, or use ingot.torch_tensorrt.compile(module, inputs=...), which makes a program of it",
        )
    if isinstance(module, Module):
        raise InputError("the model is an ingot.Module: it is compiled already", remedy="call it, save it by ingot.save, or compile the model that it was made of")
    if isinstance(module, torch.nn.Module):
        if given is None:
            _refuse_unknown(options)
            raise InputError("inputs are needed to capture a module", remedy="ingot.compile(model, inputs=[ingot.Input((1, 3, 224, 224))])")
        training.warn(module, options)
        return export(module, given, dynamic_shapes, strict)
    if isinstance(module, type):
        raise InputError(f"the model is the class {module.__name__}, and not an object of it", remedy=f"ingot.compile({module.__name__}(...).eval(), ...)")
    raise InputError(
        f"a module of type {type(module).__name__} cannot be compiled",
        remedy="pass an nn.Module, a torch.export.ExportedProgram or the path of a .pt2 file",
    )


def _after(passes, options, program: Program, given: Given | None) -> Program:
    """The program after the user's passes, and after them what a program needs of which nothing may stay in torch."""
    if options.get("fallback") == "error" and fix.any_wanted(order.ALONE, Traced.of_program(program.exported)):
        passes = (*passes, _with_numbers_of_its_own)
    return paired(applied(program.exported, passes), given) if passes else program


def _with_numbers_of_its_own(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    traced = Traced(gm)
    fix.run(order.ALONE, traced)
    return traced.module


def _refuse_unknown(options):
    """Names a keyword that compile does not have, before the inputs that it may have been meant to give are missed."""
    known = {described["name"] for described in _library.options()}
    own = ("inputs", "arg_inputs", "kwarg_inputs", "dynamic_shapes", "strict", "passes", "output_names", "options")
    for name in options:
        if name not in known:
            near = sorted((one for one in own if name.endswith(one)), key=len)[-1:] or difflib.get_close_matches(name, [*own, *known], n=1, cutoff=0.5)
            raise OptionError(f"there is no option {name!r}", remedy=f"did you mean {near[0]!r}?" if near else "ingot.options() lists them")


def _merge(options, option):
    merged = dict(options or {})
    for name, value in option.items():
        if name in merged and merged[name] != value:
            raise OptionError(f"option {name!r} is given twice: {merged[name]!r} in options and {value!r} as a keyword")
        merged[name] = value
    return devices.written(merged)


def compile_with_record(module: torch.nn.Module, inputs: list[Input], record: dict, options: dict) -> Module:
    """`compile`, with entries of its own in the plan's signature (plan_signature.RECORDS): what another way in has to know of a loaded plan."""
    options, given = _merge(options, {}), read(inputs, None, None)
    compiled = _compile_program(_program_of(module, given, None, False, options), options, parameters_of(module.forward), record=record)
    alone(compiled._kind.owned_by)(module)
    return compiled


def _compile_program(program: Program, options, parameters, output_names=None, record=()) -> Module:
    """parameters: the parameters of the model's forward."""
    names, exported = program.names(), program.exported
    try:
        f = _functional(exported, names)
    except NotFunctional as problem:
        return Module(Exported(exported, in_torch(exported.graph, problem.message, options), parameters))
    f = f.named(output_names) if output_names is not None else f
    ranges = ranges_of((i.name, i.leaf) for i in program.inputs)
    signature = {**signature_of(exported, f), "parameters": parameters, **dict(record)}

    def prepare(model):
        set_ranges(model, ranges)
        model.set_signature(as_text(signature))

    flat_of = _form(signature, exported).flattened
    given = getattr(options.get("autocast"), "calibration", None)
    calibration = list(map(low_precision.reader(f, flat_of), itertools.islice(given or (), accuracy.MAX_SAMPLES))) if "accuracy" in options else []
    options, f = low_precision.resolved(options, f, flat_of, exported)
    bound, options = accuracy.bound_of(options)

    def build(options):
        return assemble(f, options, prepare, for_file=True, follow=True)

    if bound is None or split_dryrun(options)[0] is not None:
        return Module(FromModel(build(options), signature, prepare))
    samples = calibration or accuracy.samples_of(f, [i.leaf for i in program.inputs])
    return Module(FromModel(accuracy.held(f, options, bound, samples, build), signature, prepare))


def _form(signature, exported):
    """The form of calls with all inputs, including numbers."""
    return form_of(signature, exported.call_spec.in_spec, exported.call_spec.out_spec)


def _compile_file(path, given: Given | None, options) -> Module:
    if names_cuda(path) or autocast_options.needs_graph(options) or accuracy.bound_of(options)[0] is not None:  # these need the program in torch
        return _compile_program_in(path, given, options)
    options = autocast_options.plain(options)
    model = _library.Model.open(path)
    names = model.input_names()
    if given is not None:
        if len(given.leaves) != len(names):
            raise InputError(f"{path} takes {_op.count(len(names), 'tensor')} ({', '.join(names)}), but {_op.given(given.leaves)}")
        ranges = ranges_of(zip(names, given.leaves))
        if need_replay(model, ranges):
            del model
            return _compile_program_in(path, given, options)
        set_ranges(model, ranges)
        if any(leaf.input is not None and leaf.input.memory_format for leaf in given.leaves):  # torch knows how the program's inputs lie
            match(_program_in(path), given)
    # torch writes autocast's casts out, and knows the inputs and results that are not tensors, or are tensors that plans hold otherwise.
    if autocast.state() is not None or not _tensors_as_held(model) or split_dryrun(options)[0] is not None or not Report(model.explain(options)).whole:
        del model
        return _compile_program_in(path, given, options)
    targets = devices.targets(options)
    return Module(FromPlan(_engine.Engine(model.compile(options), here=targets == ["auto"] or devices.runs(targets, devices.CPU) or torch.cuda.is_available())))


def _compile_program_in(path, given, options, passes=(), output_names=None) -> Module:
    exported = _program_in(path)
    return _compile_program(_after(passes, options, paired(exported, given), given), options, parameters_of_program(exported), output_names)


def _tensors_as_held(model) -> bool:
    """Whether all inputs and results of a program are tensors as plans have them. Then its structure describes its calls completely."""
    described = model.describe()
    if any(_values.held_otherwise(tensor["dtype"]) for tensor in (*described["inputs"], *described["outputs"])):
        return False
    found = plan_signature.read(described["signature"])
    if "in_spec" not in found:
        return True
    specs = structure.read_of_torch(found["in_spec"], "in_spec"), structure.read_of_torch(found["out_spec"], "out_spec")
    return [spec.num_leaves for spec in specs] == [len(described["inputs"]), len(described["outputs"])]


def _program_in(path):
    return load_program(path, remedy="ingot.compile(torch.export.load(path)), if you trust whoever made the file as much as a program of theirs")
