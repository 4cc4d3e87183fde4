"""`ingot.compile`, `ingot.save`, `ingot.load` and the `ingot.Module` they give back."""

from __future__ import annotations

import inspect
import json
import os
import re
import threading
import traceback

import torch
import torch.nn.modules.module as _hooks
import torch.utils._pytree as pytree

from . import _engine, _op, saving
from .assemble import Segment, assemble, in_torch
from .capture import write
from .errors import FormatError, InputError, OptionError, UnsupportedError
from .follow import follow, refresh
from .functional import NotFunctional, from_exported
from .inputs import Input, check_shared
from .report import Report


def compile(module, inputs=None, *, arg_inputs=None, kwarg_inputs=None, dynamic_shapes=None, strict=False, options=None, **option):
    """Compiles a model ahead of time.

    Arguments:
        module: an nn.Module, a torch.export.ExportedProgram, or the path of a `.pt2` file.
        inputs (or arg_inputs): sequence of the positional inputs; each an `ingot.Input`, a tensor (its shape and dtype
            are taken), an int, float, bool or None, or a list, tuple or dict of those. Not needed for an ExportedProgram.
        kwarg_inputs: the keyword inputs by name.
        dynamic_shapes: as for torch.export.export, instead of ranges in `Input`.
        strict: passed to torch.export.export.
        options, **option: see `ingot.options()`; dryrun=True (or a path) prints (or writes) the report and builds no engine.

    Returns an `ingot.Module` that is called like the model. The weights are the model's own tensors, not copies; load_state_dict on the model is
    noticed at the next call, other changes of its parameters want `update_weights`. Operators that no
    engine has run in torch, which is logged once and told in full by `.report`; with fallback="error" they raise UnsupportedError
    listing every one with the lines that use it. Raises InputError, OptionError too.
    """
    options = _merge(options, option)
    arguments = _positional_inputs(inputs, arg_inputs)
    if isinstance(module, (str, os.PathLike)):
        return _compile_file(os.fspath(module), arguments, kwarg_inputs, options)
    program, leaves = _capture(module, arguments, kwarg_inputs, dynamic_shapes, strict)
    compiled = _compile_program(program, leaves, options)
    return follow(module, compiled) if isinstance(module, torch.nn.Module) else compiled


def explain(module, inputs=None, *, arg_inputs=None, kwarg_inputs=None, dynamic_shapes=None, options=None, **option) -> Report:
    """What `ingot.compile` with the same arguments would run where, and why: an `ingot.Report`. Nothing is built."""
    options = _merge(options, option)
    arguments = _positional_inputs(inputs, arg_inputs)
    if isinstance(module, (str, os.PathLike)):
        module = torch.export.load(os.fspath(module))
    program, leaves = _capture(module, arguments, kwarg_inputs, dynamic_shapes, False)
    captured = write(from_exported(program))
    return Report(_engine.Model.from_json(captured.json, captured.weights).explain({k: v for k, v in options.items() if k != "dryrun"}))


def _positional_inputs(inputs, arg_inputs):
    if inputs is not None and arg_inputs is not None:
        raise InputError("give either inputs or arg_inputs, not both: they are the same thing")
    given = arg_inputs if inputs is None else inputs
    return None if given is None else tuple(given)


def _capture(module, arguments, kwarg_inputs, dynamic_shapes, strict):
    """The exported program, and the inputs with their labels."""
    if isinstance(module, torch.export.ExportedProgram):
        leaves = _named_leaves(arguments, kwarg_inputs)
        _match_program(module, leaves)
        return module, leaves
    if isinstance(module, torch.nn.Module):
        if arguments is None and not kwarg_inputs:
            raise InputError("inputs are needed to capture a module", remedy="ingot.compile(model, inputs=[ingot.Input((1, 3, 224, 224))])")
        return _export(module, arguments or (), dict(kwarg_inputs or {}), dynamic_shapes, strict)
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
    return merged


# ---- inputs


def _is_leaf(value):
    return isinstance(value, Input)


def _named_leaves(arguments, keywords):
    """[(label, leaf)] of positional and keyword inputs, flattened in the order torch flattens them; None when none are given."""
    if arguments is None and not keywords:
        return None
    flat, _ = pytree.tree_flatten_with_path((tuple(arguments or ()), dict(keywords or {})), is_leaf=_is_leaf)
    return [(_label(path, leaf), leaf) for path, leaf in flat]


def _label(path, leaf):
    if isinstance(leaf, Input) and leaf.name:
        return f"input {leaf.name!r}"
    where, rest = path[0].idx, path[1:]
    text = f"{rest[0].key}" if where else f"inputs[{rest[0].idx}]"
    return (f"keyword input {text!r}" if where else text) + pytree.keystr(rest[1:])


def _export(module, arguments, keywords, dynamic_shapes, strict):
    try:
        inspect.signature(module.forward).bind(*arguments, **keywords)
    except TypeError as problem:
        raise InputError(f"the inputs do not fit the model's forward: {problem}", remedy="give one input a parameter, in order or by name in kwarg_inputs") from None
    leaves = _named_leaves(arguments, keywords) or []
    spans = check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
    dims: dict[str, object] = {}
    names = {id(leaf): re.sub(r"\W+", "_", label.strip("]'")) for label, leaf in leaves}

    def dimension(item, axis):
        low, high = item.min_shape[axis], item.max_shape[axis]
        if low == high:
            return None
        # A dimension without a name gets one, so that torch keeps the range as it is given and its messages say which axis.
        shared = item.shared_dims.get(axis)
        if shared is None:
            shared = f"_{names[id(item)]}_axis{axis}"
            while shared in dims:  # one Input object may stand for two inputs
                shared += "_"
        if shared not in dims:
            dims[shared] = torch.export.Dim(shared, min=low, max=high)
        return dims[shared]

    def example(leaf):
        if not isinstance(leaf, Input):
            return leaf
        if leaf.value is not None:
            return leaf.value
        # A size of 0 or 1 would be taken for a constant while tracing.
        shape = [max(opt, min(2, high)) if low != high else opt for low, opt, high in zip(leaf.min_shape, leaf.opt_shape, leaf.max_shape)]
        return torch.zeros(shape, dtype=getattr(torch, leaf.dtype), device=_device_of(module))

    def spec(leaf):
        if not isinstance(leaf, Input):
            return None
        found = {axis: dimension(leaf, axis) for axis in leaf.dynamic_axes}
        return {axis: dim for axis, dim in found.items() if dim is not None} or None

    examples, keyword_examples = pytree.tree_map(example, (arguments, keywords), is_leaf=_is_leaf)
    if dynamic_shapes is None and spans is not None:
        positional, by_keyword = pytree.tree_map(spec, (arguments, keywords), is_leaf=_is_leaf)
        dynamic_shapes = _by_parameter(module, positional, by_keyword)
    try:
        with torch.no_grad(), _AttributeWatch(module) as watch:
            program = torch.export.export(module, examples, keyword_examples, dynamic_shapes=dynamic_shapes, strict=strict)
        if watch.changed:
            with torch.no_grad(), watch.again() as second:
                torch.export.export(module, examples, keyword_examples, dynamic_shapes=dynamic_shapes, strict=strict)
            second.refuse_changes()
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode as problem:
        raise UnsupportedError(
            "the model's code branches on a value that is known only when it runs",
            _user_line(problem),
            "write it with tensor operations such as torch.where",
        ) from problem
    except (RuntimeError, torch._dynamo.exc.UserError, torch._export.verifier.SpecViolationError) as problem:
        reason = str(problem).split("\n\nThe error above occurred")[0].strip()
        raise InputError(
            f"the model cannot be captured with these inputs: {reason}",
            _user_line(problem),
            "axes that the model needs to be equal want one name in shared_dims; axes that it fixes want one size",
        ) from problem
    _check_ranges(program, leaves)
    return program, leaves


class _AttributeWatch:
    """Notices numbers that forward changes on its modules. torch.export puts them back and makes constants of them, without a word.

    A number that a second trace, begun with the first one's values, does not change again is a cache (the longest sequence so far); one that
    it changes is state, which the graph would lose.
    """

    _lock = threading.Lock()

    def __init__(self, module, start=None):
        self.module, self.start, self.changed = module, start or {}, {}
        self.modules = {id(m) for m in module.modules()}

    def __enter__(self):
        self._lock.acquire()
        self.plain = original = torch.nn.Module.__setattr__
        self.old = {(m, name): vars(m)[name] for m, name in self.start}
        for (m, name), value in self.start.items():
            vars(m)[name] = value

        def set_attribute(m, name, value):
            have = vars(m).get(name)
            if id(m) in self.modules and isinstance(have, (int, float)) and isinstance(value, (int, float)) and have != value:
                self.changed[m, name] = value
            original(m, name, value)

        torch.nn.Module.__setattr__ = set_attribute
        return self

    def __exit__(self, *_):
        torch.nn.Module.__setattr__ = self.plain
        for (m, name), value in self.old.items():
            vars(m)[name] = value
        self._lock.release()

    def again(self):
        return _AttributeWatch(self.module, self.changed)

    def refuse_changes(self):
        for owner, name in self.changed:
            path = next((p for p, m in self.module.named_modules() if m is owner), "")
            value = vars(owner)[name]
            raise UnsupportedError(
                f"forward changes the number {f'{path}.{name}' if path else name!r} with each call, which a captured graph cannot do",
                remedy=f'keep it in a buffer: self.register_buffer("{name}", torch.tensor({value!r}))',
            )


def _user_line(problem):
    """The innermost line of the traceback that is neither torch's nor ours, as "file:line: `code`"."""
    here = os.path.dirname(__file__)
    own = (os.path.dirname(torch.__file__), here)
    frames = [f for f in traceback.extract_tb(problem.__traceback__) if not f.filename.startswith(own) and not f.filename.startswith("<")]
    library = os.path.join("lib", "python")
    frames = [f for f in frames if library not in f.filename] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}: `{frames[-1].line}`" if frames else ""


def _by_parameter(module, positional, by_keyword):
    """dynamic_shapes as torch.export wants them: by parameter name, a *args parameter as one tuple, a **kwargs one as one dict."""
    parameters = inspect.signature(module.forward).parameters
    shapes, rest = {}, list(positional)
    extra = dict(by_keyword)
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            shapes[name], rest = tuple(rest), []
        elif parameter.kind is parameter.VAR_KEYWORD:
            if extra:
                shapes[name], extra = extra, {}
        elif name in extra:
            shapes[name] = extra.pop(name)
        elif rest and parameter.kind is not parameter.KEYWORD_ONLY:
            shapes[name] = rest.pop(0)
    return shapes


def _device_of(module):
    return next((t.device for t in module.parameters()), torch.device("cpu"))


def _user_placeholders(program):
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    return [nodes[name] for name in _user_input_names(program)]


def _user_input_names(program):
    from torch.export.graph_signature import InputKind

    return [s.arg.name for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]


def _check_ranges(program, leaves):
    """An axis that the caller made dynamic must not have become a constant while tracing."""
    for (label, leaf), node in zip(leaves, _user_placeholders(program)):
        if not isinstance(leaf, Input):
            continue
        for axis in leaf.dynamic_axes:
            if leaf.min_shape[axis] == leaf.max_shape[axis]:
                continue
            size = node.meta["val"].shape[axis]
            if isinstance(size, int):
                raise InputError(
                    f"axis {axis} of {label} is to vary between {leaf.min_shape[axis]} and {leaf.max_shape[axis]}, "
                    f"but the model's code fixes it to {size}",
                    remedy="look for int(), len() or a reshape with a number that stands for this size in the model's forward; "
                    "TORCH_LOGS=dynamic shows where",
                )


def _match_program(program, leaves):
    if leaves is None:
        return
    nodes = _user_placeholders(program)
    if len(leaves) != len(nodes):
        raise InputError(f"the exported program takes {_op.count(len(nodes), 'input')}, but {_op.given(leaves)}")
    check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
    for (label, leaf), node in zip(leaves, nodes):
        meta = node.meta.get("val")
        if not isinstance(leaf, Input):
            continue
        if not isinstance(meta, torch.Tensor):
            raise InputError(f"{label} is an Input, but the exported program takes a {type(meta).__name__} there")
        if len(meta.shape) != len(leaf.opt_shape):
            raise InputError(f"{label} has rank {len(leaf.opt_shape)}, but the exported program takes rank {len(meta.shape)} there")
        if str(meta.dtype).removeprefix("torch.") != leaf.dtype:
            raise InputError(f"{label} has dtype {leaf.dtype}, but the exported program takes {meta.dtype} there")


# ---- building


def _compile_program(program, leaves, options):
    nodes = _user_placeholders(program)
    names = {n.name: n.name for n in nodes}
    names |= {n.name: leaf.name for n, (_, leaf) in zip(nodes, leaves or ()) if isinstance(leaf, Input) and leaf.name}
    for name in names.values():
        if list(names.values()).count(name) > 1:
            raise InputError(f"two inputs are named {name!r}", remedy="give them different names")
    try:
        f = from_exported(program, names)
    except NotFunctional as problem:
        return Module(eager=program.module(), report=in_torch(program.graph, problem.message, options), program=program)
    signature = _signature(program, f)

    def prepare(model):
        for i, (label, leaf) in enumerate(leaves or ()):
            if isinstance(leaf, Input):
                for axis in leaf.dynamic_axes:
                    model.set_dim(names[nodes[i].name], axis, leaf.min_shape[axis], leaf.opt_shape[axis], leaf.max_shape[axis], leaf.shared_dims.get(axis, ""))
        model.set_signature(json.dumps(signature))

    assembled = assemble(f, options, prepare)
    assembled.in_spec, assembled.out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    return Module(assembled=assembled, signature=signature, prepare=prepare)


def _signature(program, f):
    """How a call's pytrees map to the flat inputs and results of the graph."""
    tensors, inputs = 0, []
    for slot in f.inputs:
        if slot.kind == "input":
            inputs.append({"tensor": tensors})
            tensors += 1
        else:
            inputs.append({"constant": _constant(slot.node)})
    outputs, made = [], 0
    for result in f.results:
        value = result.meta.get("val") if isinstance(result, torch.fx.Node) else result
        if isinstance(value, torch.Tensor):
            outputs.append({"tensor": made})
            made += 1
        elif isinstance(value, torch.SymInt):
            outputs.append(_size_of_inputs(value.node.expr, f))
        else:
            outputs.append({"constant": value})
    return {"in_spec": _dumps(program.call_spec.in_spec), "out_spec": _dumps(program.call_spec.out_spec), "inputs": inputs, "outputs": outputs}


def _dumps(spec):
    try:
        return pytree.treespec_dumps(spec)
    except NotImplementedError:
        return None  # a type without a name in files, such as a namedtuple of the user's


def _constant(node):
    meta = node.meta.get("val")
    if isinstance(meta, (torch.SymInt, torch.SymFloat)):
        raise UnsupportedError(f"input {node.name} is a dynamic number, which is not supported", remedy="pass it as a tensor, or as a fixed number")
    return meta


def _size_of_inputs(value, f):
    """A size that the model returns, as an expression over axes of the inputs; None when it comes from elsewhere."""
    places = {}
    for i, slot in enumerate(s for s in f.inputs if s.kind == "input"):
        for axis, size in enumerate(slot.node.meta["val"].shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                places.setdefault(str(size.node.expr), [i, axis])
    if any(str(s) not in places for s in value.free_symbols):
        return {"computed": True}
    return {"size": {"text": str(value), "symbols": {str(s): places[str(s)] for s in value.free_symbols}}}


def _compile_file(path, arguments, keywords, options):
    model = _engine.Model.open(path)
    names = model.input_names()
    leaves = _named_leaves(arguments, keywords)
    if leaves is not None:
        if len(leaves) != len(names):
            raise InputError(f"{path} takes {_op.count(len(names), 'tensor')} ({', '.join(names)}), but {_op.given(leaves)}")
        check_shared([(label, leaf) for label, leaf in leaves if isinstance(leaf, Input)])
        for name, (label, leaf) in zip(names, leaves):
            if isinstance(leaf, Input):
                for axis in leaf.dynamic_axes:
                    model.set_dim(name, axis, leaf.min_shape[axis], leaf.opt_shape[axis], leaf.max_shape[axis], leaf.shared_dims.get(axis, ""))
    if "dryrun" in options or not Report(model.explain(options)).whole and options.get("fallback", "torch") != "error":
        del model
        return _compile_program(torch.export.load(path), leaves, options)
    return Module(_engine.Engine(model.compile(options)))


# ---- running


class Module(torch.nn.Module):
    """A compiled model: called as the original is, with pytrees in and out.

    engine: the `ingot.Engine` inside, None when nothing of the model runs in one. report: the `ingot.Report` of what runs where (None for
    a loaded file, which runs in its engine alone). segments: the pieces of the model that run in the engine. Inputs are CPU tensors of the
    dtypes and ranks the model was compiled for, with sizes inside the ranges given then; other sizes, dtypes or ranks raise InputError
    naming the input and what is allowed. What the model writes in eager (buffers, inputs) is written here too, in the model's own
    tensors. Calls from several threads run side by side; calls that write the same buffer are the caller's to order.
    """

    def __init__(self, engine: "_engine.Engine | None" = None, *, assembled=None, signature=None, prepare=None, eager=None, report=None, program=None):
        super().__init__()
        if eager is not None:  # torch runs all of it, engines among the rest when it comes from a file
            self.engine, self.report, self._assembled = None, report, None
            self.__dict__["_eager"], self._exported = eager, program  # no submodule: its tensors go by the model's names
            self.training = False
            for name, tensor in [*eager.named_parameters(), *eager.named_buffers()] if isinstance(eager, torch.nn.Module) else ():
                if not name.startswith("ingot_plan_"):
                    self._show_state(name, tensor)
            return
        self._eager = None
        self.engine = assembled.engine if assembled is not None else engine
        self.report = assembled.report if assembled is not None else None
        self._assembled, self._prepare = assembled, prepare
        self._runner = assembled.run if assembled is not None else self._with_states(_op.Runner(engine))
        signature = signature or engine.signature
        self._out_spec = None
        self._spec = None
        self._inputs = signature.get("inputs") or [{"tensor": i} for i in range(len(engine.input_names))]
        self._outputs = signature.get("outputs") or [{"tensor": i} for i in range(len(engine.output_names))]
        if assembled is not None:
            self._set_specs(assembled)
        elif signature.get("in_spec"):
            self._spec = pytree.treespec_loads(signature["in_spec"])
            self._out_spec = pytree.treespec_loads(signature["out_spec"]) if signature.get("out_spec") else None
        self._constants = [(i, leaf["constant"]) for i, leaf in enumerate(self._inputs) if "constant" in leaf]
        # Around an engine alone, sizes and constants are added to its outputs here.
        complete = assembled is not None and not assembled.straight
        self._sizes = [_size_function(leaf["size"]) if "size" in leaf and not complete else None for leaf in self._outputs]
        self._plain_outputs = complete or all("tensor" in leaf for leaf in self._outputs)
        self._all_inputs = complete  # numbers are inputs of the graph too
        # All arguments positional tensors: no flattening needed.
        self._positional = self._spec is None or (
            not self._constants and not self._keywords() and all(c.is_leaf() for c in self._spec.children()[0].children())
        )
        self._single = self._spec is None and len(self._outputs) == 1 or (self._out_spec is not None and self._out_spec.is_leaf())
        keywords = self._keywords()
        self._all_keywords = (
            tuple(keywords)
            if keywords and not self._constants and not self._spec.children()[0].children()
            and all(c.is_leaf() for c in self._spec.children()[1].children())
            else None
        )  # fmt: skip
        self._quick = self._quick_call()
        self.eval()

    def _set_specs(self, assembled):
        self._spec, self._out_spec = assembled.in_spec, assembled.out_spec
        for slot in assembled.functional.slots:
            if slot.kind == "state":
                self._show_state(slot.name, slot.tensor)

    def _show_state(self, name, tensor):
        """A buffer that calls write, under the model's name for it, so that state_dict() shows what they have written."""
        *path, name = name.split(".")
        place = self
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
        if isinstance(place, torch.nn.Module) and not hasattr(place, name):
            place.register_parameter(name, tensor) if isinstance(tensor, torch.nn.Parameter) else place.register_buffer(name, tensor)

    def _with_states(self, run):
        """A loaded engine's states are this module's buffers, begun with the file's values."""
        if not self.engine.states():
            return run
        values = self.engine.session().state
        states = []
        for binding in self.engine.states():
            value = torch.from_numpy(values[binding["name"]])
            states.append(value.view(torch.bfloat16) if binding["dtype"] == "bfloat16" else value)
            self._show_state(binding["name"], states[-1])
        return lambda flat: run([*flat, *states])

    @property
    def segments(self):
        """The pieces of the model that run in the engine, in order."""
        if self._eager is not None:
            return []
        graph = getattr(self._assembled, "graph", None)
        return [m for m in graph.children() if isinstance(m, Segment)] if graph is not None else ["forward"]

    def _keywords(self):
        return list(self._spec.children()[1].context) if self._spec is not None else []

    _stale = False  # see follow.py

    _quick = None

    def __call__(self, *args, **kwargs):
        quick = self._quick
        if quick is not None and not kwargs and (result := quick(args)) is not None:
            return result
        if self._stale:
            refresh(self)
            self._quick = self._quick_call()
        return super().__call__(*args, **kwargs)

    def _quick_call(self):
        """The usual call, of plain tensors by position into one engine, with everything at hand: after a run the caches hold little of Python, and each
        object that is looked up costs. Gives None when the call is not of that kind; None itself when no call is."""
        runner = self._runner
        if not (isinstance(runner, _op.Runner) and runner.plain and self._positional and self._plain_outputs):
            return None
        run = runner.plain
        count, single, spec, plain, compiling = len(self._inputs), self._single, self._out_spec, torch.Tensor, torch.compiler.is_compiling
        hooks, before, all_hooks, all_before = self._forward_hooks, self._forward_pre_hooks, _hooks._global_forward_hooks, _hooks._global_forward_pre_hooks

        def call(args):
            if hooks or before or all_hooks or all_before or len(args) != count or compiling():
                return None
            for tensor in args:
                if type(tensor) is not plain:
                    return None
            results = run(args)
            if single:
                return results[0]
            return tuple(results) if spec is None else pytree.tree_unflatten(results, spec)

        return call

    def _apply(self, function, recurse=True):
        # What .to(), .half(), .cuda() and their like do to a parameter.
        probe = torch.empty(0)
        moved = function(probe)
        if moved.dtype != probe.dtype or moved.device != probe.device:
            raise InputError(
                f"a compiled module stays on {probe.device} with the dtypes it was compiled for; it cannot become {moved.dtype} on {moved.device}",
                remedy="convert the model, then compile it again",
            )
        return self

    def forward(self, *args, **kwargs):
        if self._eager is not None:
            try:
                with torch.no_grad():
                    return self._eager(*args, **kwargs)
            except RuntimeError as problem:
                raise _op.translate(problem) from None
            except AssertionError as problem:
                if not str(problem).startswith("Guard failed: "):
                    raise
                guard = str(problem).removeprefix("Guard failed: ")
                raise InputError(f"the inputs do not fit the saved program, which was compiled for {guard}", remedy="give other sizes, or compile with wider ranges") from None
        if self._positional and not kwargs and len(args) == len(self._inputs):
            flat = args
        elif self._all_keywords is not None and not args and len(kwargs) == len(self._all_keywords) and all(k in kwargs for k in self._all_keywords):
            flat = [kwargs[k] for k in self._all_keywords]
        else:
            flat = self._flatten(args, kwargs)
        results = self._runner(flat)
        if self._plain_outputs:
            if self._single:
                return results[0]
        else:
            results = [
                results[leaf["tensor"]] if "tensor" in leaf else size(flat) if size is not None else leaf["constant"]
                for leaf, size in zip(self._outputs, self._sizes)
            ]
        if self._out_spec is None:
            return results[0] if len(results) == 1 else tuple(results)
        return pytree.tree_unflatten(results, self._out_spec)

    def _flatten(self, args, kwargs):
        if self._spec is None:
            if kwargs:
                raise InputError("this engine was built without a signature and takes positional tensors only")
            return list(args)
        names = self._keywords()
        unknown = [k for k in kwargs if k not in names]
        positional = list(args)
        count = len(self._spec.children()[0].children())
        if len(positional) < count and unknown:
            # positional arguments given by keyword: by the parameter names the engine recorded
            raise InputError(f"unexpected keyword argument {unknown[0]!r}; the model was compiled with {count} positional inputs and keywords {names}")
        if unknown:
            raise InputError(f"unexpected keyword argument {unknown[0]!r}; the model was compiled with keywords {names}")
        missing = [n for n in names if n not in kwargs]
        if missing:
            raise InputError(f"keyword argument {missing[0]!r} is missing")
        flat, spec = pytree.tree_flatten((tuple(positional), {n: kwargs[n] for n in names}))
        if len(positional) != count:
            raise InputError(f"the model takes {_op.count(count, 'positional argument')}, but {_op.given(positional)}")
        if spec != self._spec:
            raise InputError(f"the arguments have the structure {spec}, but the model was compiled for {self._spec}")
        for i, expected in self._constants:
            if type(flat[i]) is not type(expected) or flat[i] != expected:
                raise InputError(f"argument {i} is {flat[i]!r}, but the model was compiled with {expected!r} there", remedy="compile it again for this value")
        return flat if self._all_inputs else [flat[i] for i, leaf in enumerate(self._inputs) if "tensor" in leaf]

    def update_weights(self, state_dict, *, strict=True):
        """Replaces weights by state-dict name; results of the next call use them. With strict, unknown names are an InputError."""
        if self._eager is not None:
            self._update_eager(state_dict, strict)
        elif self._assembled is None:
            self.engine.update_weights(state_dict, strict=strict)
        else:
            self._assembled.update_weights(state_dict, strict)

    def _update_eager(self, state_dict, strict):
        if not isinstance(self._eager, torch.nn.Module):
            raise UnsupportedError("the weights of an AOTInductor package cannot be replaced", remedy='save the module with other weights, or with format="exported_program"')
        try:
            unknown = self._eager.load_state_dict(state_dict, strict=False).unexpected_keys
        except RuntimeError as problem:
            raise InputError(str(problem)) from None
        if strict and unknown:
            raise InputError(f"the model has no weight {unknown[0]!r}")

    def _program(self, empty_lists=True):
        """The torch program of a saved file."""
        if self._eager is not None and self._exported is not None:
            return self._exported
        if self._assembled is None or self._assembled.functional.program is None:
            raise UnsupportedError("this module was made from a file alone, without the torch program around its engine", remedy="compile the original model, or torch.export.load(path) of the .pt2 file, and save that")
        return saving.exported_program(self._assembled, empty_lists)

    def _plan(self):
        """An engine that is the whole model by itself."""
        if self._eager is not None:
            raise UnsupportedError("all of the model runs in torch, which a .ingot file does not hold", remedy="its report says why; torch.export.save keeps it")
        if self._assembled is None or self._assembled.straight:
            return self.engine
        f = self._assembled.functional
        if any("computed" in leaf for leaf in self._outputs):
            raise UnsupportedError("the model returns a size that comes from the values of a tensor, which a .ingot file does not hold")
        captured = write(f.complete())
        model = _engine.Model.from_json(captured.json, captured.weights)
        self._prepare(model)
        return _engine.Engine(model.compile({"fallback": "error"}), keep=[t for _, t in captured.weights])

    def profile(self, *args, runs: int = 10, **kwargs) -> list[dict]:
        """Where the time of a call goes: for each step its label, kernel, sizes, bytes and nanoseconds (median of `runs` calls)."""
        flat = self._flatten(args, kwargs) if self._spec is not None else list(args)
        # bfloat16 has no numpy type: its bits go in as uint16
        arrays = [t.detach().view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else t.detach().numpy() for t in flat]
        return self.engine.session().profile(*arrays, runs=runs)

    def extra_repr(self):
        if self.engine is None:
            return "runs in torch"
        return f"inputs={self.engine.input_names}, outputs={self.engine.output_names}"


def _size_function(size):
    """A function of the inputs that computes a size the model returns. The text may come from a file, so it is walked, never run."""
    import ast

    operators = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.Pow: lambda a, b: a**b}
    functions = {"Max": max, "Min": min, "FloorDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b}

    def build(node):
        match node:
            case ast.Constant(value=int(number)):
                return lambda _: number
            case ast.Name(id=name) if name in size["symbols"]:
                position, axis = size["symbols"][name]
                return lambda flat: flat[position].shape[axis]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = build(operand)
                return lambda flat: -inner(flat)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in operators:
                a, b, f = build(left), build(right), operators[type(op)]
                return lambda flat: f(a(flat), b(flat))
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in functions:
                inner, f = [build(p) for p in parts], functions[name]
                return lambda flat: f(*(g(flat) for g in inner))
        raise FormatError(f"the plan returns a size as {size['text']!r}, which is not an expression over sizes of its inputs")

    try:
        return build(ast.parse(size["text"], mode="eval").body)
    except SyntaxError:
        raise FormatError(f"the plan returns a size as {size['text']!r}, which is not an expression") from None


_FORMATS = ("ingot", "exported_program", "aot_inductor")


def save(module: Module, path, *, format="ingot", weights="embed"):
    """Writes a compiled module to a file.

    format:
        "ingot": one engine, for `ingot.load`, the command line and the C and C++ APIs, with or without torch. Raises UnsupportedError
            when parts of the model need torch.
        "exported_program": a `.pt2` with the model's signature, ranges, parameters and buffers, for torch.export.load. Parts that need
            torch stay torch operators. In the process that loads it `import ingot` comes first; without it torch.export.load logs "We failed
            to resolve torch.ops.ingot.execute.default to an operator" and raises RuntimeError. Parameters are saved without requires_grad;
            other values for them (load_state_dict, an in-place write, another tensor) are noticed at the next call; writes through
            `.data` may not be, since torch does not count them.
        "aot_inductor": an AOTInductor package (a `.pt2` that needs a C++ compiler here) for torch._inductor.aoti_load_package after
            `import ingot`, or from C++ (examples/cpp/run_package.cpp). Inductor compiles what stays in torch and rounds in its own way.
    weights: "embed".

    Atomic: the file is the old one or the new one, never half. Raises IoError when it cannot be written, OptionError for another format.
    """
    if not isinstance(module, Module):
        raise InputError(f"only an ingot.Module can be saved, not a {type(module).__name__}", remedy="compile it first: ingot.compile(model, inputs=[...])")
    if format not in _FORMATS:
        raise OptionError(f"format {format!r} is not known", remedy=", ".join(f'"{name}"' for name in _FORMATS))
    if weights != "embed":
        raise OptionError(f"weights {weights!r} is not known", remedy='"embed"')
    if module._stale:
        refresh(module)
    if format == "ingot":
        module._plan().save(path)
    elif format == "exported_program":
        saving.save_exported_program(module._program(), path)
    else:
        saving.save_aot_inductor(module._program(empty_lists=False), path)


def load(path, *, device=None, **runtime_option) -> Module:
    """Loads what `ingot.save` or `ingot compile` wrote, of any format.

    A `.ingot` file takes milliseconds: weights are mapped, not read. Of the other two, torch loads the program (torch.export.load, which
    uses pickle: load only files you trust) and the module runs it; runtime options are for `.ingot` files.
    """
    if device not in (None, "cpu", torch.device("cpu")):
        raise InputError(f"device {device!r} is not available; this plan holds a program for \"cpu\"")
    if (kind := saving.kind_of(path)) is not None:
        if runtime_option:
            raise OptionError(f"option {next(iter(runtime_option))!r} is for .ingot files", remedy="torch.set_num_threads sets the threads of a torch program")
        return saving.load(path, kind)
    return Module(_engine.load_engine(path, **runtime_option))
