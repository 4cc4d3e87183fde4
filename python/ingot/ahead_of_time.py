"""`ingot.compile` and `ingot.explain`: from a model, an exported program or a `.pt2` file to an `ingot.Module`."""

from __future__ import annotations

import logging
import os
from collections import Counter

import torch

from . import _engine, _library, _op, autocast, devices, plan_signature, structure
from .arguments import parameters_of, parameters_of_program
from .assemble import assemble, in_torch, split_dryrun
from .capture import write
from .errors import InputError, OptionError
from .export import export, match_program, named_leaves, user_placeholders
from .functional import NotFunctional, from_exported
from .inputs import Input, check_shared
from .kinds import Exported, FromModel, FromPlan
from .module import Module
from .report import Report
from .signature import as_text, signature_of
from .torch_archive import load_program, names_cuda

log = logging.getLogger("ingot")


def compile(module, inputs=None, *, arg_inputs=None, kwarg_inputs=None, dynamic_shapes=None, strict=False, options=None, **option):
    """Compiles a model ahead of time.

    Arguments:
        module: an nn.Module, a torch.export.ExportedProgram, or the path of a `.pt2` file. **A `.pt2` file is a program of torch's: where parts of it stay
            in torch, torch reads it, which may run any code that its maker wants.**
        inputs (or arg_inputs): sequence of the positional inputs; each an `ingot.Input`, a tensor (its shape and dtype
            are taken), an int, float, bool or None, or a list, tuple or dict of those. Not needed for an ExportedProgram.
        kwarg_inputs: the keyword inputs by name.
        dynamic_shapes: as for torch.export.export, instead of ranges in `Input`.
        strict: passed to torch.export.export.
        options, **option: see `ingot.options()`. target="cuda:sm_90" for a model on the CPU makes a module for `ingot.save` alone, on any machine
            (NVRTC is needed): calling it is a DeviceError. With target=["cpu", "cuda:sm_90"] it runs on the CPU, and the file on both.
            A torch.device is a target too: torch.device("cuda") means the GPU at hand.

    Returns an `ingot.Module` that is called like the model. The weights are the model's own tensors, not copies, and the next call and the next save have
    the values of now: after an optimizer's step, `p.add_()` or `p.copy_()`, load_state_dict, `p.data = other`, and when the model has another parameter,
    buffer or layer of the same name, dtype and shape (with others a call is an InputError, and so are tied weights that differ since). Only what torch counts
    as a write is noticed: not one through `p.data.add_()`, NumPy or DLPack, nor one to tensors of torch.inference_mode; call `update_weights` after
    those. A call after a change prepares the weights anew. How the model computes is not followed: with other operators, parametrizations or hooks compile
    it again. Operators that no engine has run in torch, which is logged once and told in full by `.report`; with fallback="error" they raise UnsupportedError
    listing every one with the lines that use it. Raises InputError, OptionError too.
    """
    options = _merge(options, option)
    arguments = _positional_inputs(inputs, arg_inputs)
    if isinstance(module, (str, os.PathLike)):
        return _compile_file(os.fspath(module), arguments, kwarg_inputs, options)
    program, leaves = _capture(module, arguments, kwarg_inputs, dynamic_shapes, strict)
    parameters = parameters_of(module.forward) if isinstance(module, torch.nn.Module) else None
    compiled = _compile_program(program, leaves, options, parameters)
    if isinstance(module, torch.nn.Module):
        compiled._kind.owned_by(module)
    return compiled


def explain(module, inputs=None, *, arg_inputs=None, kwarg_inputs=None, dynamic_shapes=None, options=None, **option) -> Report:
    """What `ingot.compile` with the same arguments would run where, and why: an `ingot.Report`. Nothing is built."""
    options = _merge(options, option)
    arguments = _positional_inputs(inputs, arg_inputs)
    if isinstance(module, (str, os.PathLike)):
        module = _program_in(module)
    program, _ = _capture(module, arguments, kwarg_inputs, dynamic_shapes, False)
    try:
        functional = from_exported(program)
    except NotFunctional as problem:
        return in_torch(program.graph, problem.message, {k: v for k, v in options.items() if k not in ("dryrun", "fallback")})
    options = devices.placed(split_dryrun(options)[1], functional.device, for_file=True)
    captured = write(functional)
    return Report(_library.Model.from_json(captured.json, captured.weights).explain(options))


def _positional_inputs(inputs, arg_inputs):
    if inputs is not None and arg_inputs is not None:
        raise InputError("give either inputs or arg_inputs, not both: they are the same thing")
    given = arg_inputs if inputs is None else inputs
    return None if given is None else tuple(given)


def _capture(module, arguments, kwarg_inputs, dynamic_shapes, strict):
    """The exported program, and the inputs with their labels."""
    if isinstance(module, torch.export.ExportedProgram):
        leaves = named_leaves(arguments, kwarg_inputs)
        match_program(module, leaves)
        return module, leaves
    if isinstance(module, torch.nn.Module):
        if arguments is None and not kwarg_inputs:
            raise InputError("inputs are needed to capture a module", remedy="ingot.compile(model, inputs=[ingot.Input((1, 3, 224, 224))])")
        return export(module, arguments or (), dict(kwarg_inputs or {}), dynamic_shapes, strict)
    raise InputError(
        f"a module of type {type(module).__name__} cannot be compiled",
        remedy="pass an nn.Module, a torch.export.ExportedProgram or the path of a .pt2 file",
    )


def _merge(options, option):
    merged = dict(options or {})
    for name, value in option.items():
        if name in merged and merged[name] != value:
            raise OptionError(f"option {name!r} is given twice: {merged[name]!r} in options and {value!r} as a keyword")
        merged[name] = value
    return devices.written(merged)


def _compile_program(program, leaves, options, parameters=None):
    parameters = parameters_of_program(program) if parameters is None else parameters
    nodes = user_placeholders(program)
    names = {n.name: n.name for n in nodes}
    names |= {n.name: leaf.name for n, (_, leaf) in zip(nodes, leaves or ()) if isinstance(leaf, Input) and leaf.name}
    for name, count in Counter(names.values()).items():
        if count > 1:
            raise InputError(f"two inputs are named {name!r}", remedy="give them different names")
    try:
        f = from_exported(program, names)
    except NotFunctional as problem:
        return Module(Exported(program, in_torch(program.graph, problem.message, options), parameters))
    signature = {**signature_of(program, f), "parameters": parameters}

    def prepare(model):
        _set_ranges(model, zip((names[n.name] for n in nodes), leaves or ()))
        model.set_signature(as_text(signature))

    assembled = assemble(f, options, prepare, for_file=True, follow=True)
    return Module(FromModel(assembled, signature, prepare))


def _compile_file(path, arguments, keywords, options):
    if names_cuda(path):  # it goes where the program's tensors are
        return _compile_program(_program_in(path), named_leaves(arguments, keywords), options)
    model = _library.Model.open(path)
    names = model.input_names()
    leaves = named_leaves(arguments, keywords)
    if leaves is not None:
        if len(leaves) != len(names):
            raise InputError(f"{path} takes {_op.count(len(names), 'tensor')} ({', '.join(names)}), but {_op.given(leaves)}")
        check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
        _set_ranges(model, zip(names, leaves))
        if any(isinstance(leaf, Input) and leaf.memory_format for _, leaf in leaves):  # torch knows how the program's inputs lie
            match_program(_program_in(path), leaves)
    # What autocast casts is written out by torch, which also knows inputs and results that are no tensors.
    if autocast.state() is not None or not _tensors_alone(model) or split_dryrun(options)[0] is not None or not Report(model.explain(options)).whole and options.get("fallback", "torch") != "error":
        del model
        return _compile_program(_program_in(path), leaves, options)
    targets = devices.targets(options)
    return Module(FromPlan(_engine.Engine(model.compile(options), here=targets == ["auto"] or devices.runs(targets, devices.CPU) or torch.cuda.is_available())))


def _tensors_alone(model) -> bool:
    """Whether a program's inputs and results are tensors alone: then its structure is all there is to know."""
    described = model.describe()
    found = plan_signature.read(described["signature"])
    if "in_spec" not in found:
        return True
    specs = structure.read_of_torch(found["in_spec"], "in_spec"), structure.read_of_torch(found["out_spec"], "out_spec")
    return [spec.num_leaves for spec in specs] == [len(described["inputs"]), len(described["outputs"])]


def _program_in(path):
    return load_program(path, remedy="ingot.compile(torch.export.load(path)), if you trust whoever made the file as much as a program of theirs")


def _set_ranges(model, named_leaves):
    captured = {i["name"]: {axis: known for axis, known in enumerate(i["ranges"]) if known is not None} for i in model.describe()["inputs"]}
    for name, (label, leaf) in named_leaves:
        if isinstance(leaf, Input):
            for axis in leaf.dynamic_axes:
                low, opt, high = leaf.min_shape[axis], leaf.opt_shape[axis], leaf.max_shape[axis]
                known = captured.get(name, {}).get(axis)
                if known is not None and low < (least := _least(known) or 0) <= high < (known["max"] or high) + known["factor"]:
                    log.warning(
                        "axis %d of %s is to vary between %d and %d, but was exported for sizes from %d on, as torch takes sizes of 0 and 1 for constants with Dim.AUTO "
                        "and Dim.DYNAMIC: the compiled module takes %d to %d. torch.export.Dim(\"B\", min=%d, max=%d) exports it for all of them",
                        axis, label, low, high, least, least, high, low, high,
                    )  # fmt: skip
                    low, opt = least, max(opt, least)
                model.set_dim(name, axis, low, opt, high, leaf.shared_dims.get(axis, ""))


def _least(known) -> int | None:
    """The least size of an axis where torch left out 0 and 1."""
    return known["min"] if known["min"] == 2 * known["factor"] + known["offset"] else None
