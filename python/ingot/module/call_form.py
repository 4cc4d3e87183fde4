"""The form of a module's calls: how arguments become flat inputs, and flat results what the model returns."""

from __future__ import annotations


from ..base import structure
from ..capture.signature import same_constant, shown, size_function
from ..engine import _op
from ..errors import FormatError, InputError, UnsupportedError
from ..torch_internals.trees import pytree
from .arguments import Arguments


class Form:
    """The form of a module's calls.

    inputs, outputs: what each flat input and result is (see signature.py).
    spec, out_spec: the structures of arguments and results; None if a plan does not give them: then calls take and return tensors.
    parameters: the parameters of the model's forward.
    made: how many tensors a run returns.
    complete: True if a run takes numbers too and returns all results; otherwise sizes and constants are added here.
    """

    def __init__(self, inputs, outputs, spec, out_spec, parameters, made, complete=False):
        self.inputs, self.outputs, self.spec, self.out_spec, self.complete = inputs, outputs, spec, out_spec, complete
        self.unflatten = pytree.tree_unflatten
        self.constants = [(i, leaf["constant"]) for i, leaf in enumerate(inputs) if "constant" in leaf]
        tensors = sum("tensor" in leaf for leaf in inputs)
        self.sizes = [size_function(leaf["size"], tensors, f"signature.outputs[{i}].size") if "size" in leaf and not complete else None for i, leaf in enumerate(outputs)]
        self.plain_outputs = complete or outputs == [{"tensor": i} for i in range(made)]  # exactly the tensors of the run
        self.single = out_spec.is_leaf() if out_spec is not None else len(outputs) == 1
        # All arguments are tensors, by position or by name: no flattening is needed.
        self.positional, self.all_keywords, self.arguments = spec is None, None, None
        if spec is not None:
            by_position, by_name = spec.children()
            names, plain = list(by_name.context), not self.constants and all(c.is_leaf() for c in (*by_position.children(), *by_name.children()))
            self.positional = plain and not names
            self.all_keywords = tuple(names) if plain and names and not by_position.children() else None
            self.arguments = Arguments(parameters, by_position.num_children, names, self._constants_by_place(by_position, by_name))

    def _constants_by_place(self, by_position, by_name):
        constants, at = {}, 0
        for place, child in zip([*range(by_position.num_children), *by_name.context], [*by_position.children(), *by_name.children()]):
            if child.is_leaf() and "constant" in self.inputs[at]:
                constants[place] = self.inputs[at]["constant"]
            at += child.num_leaves
        return constants

    def flat(self, args, kwargs):
        """The flat inputs of a run."""
        if self.positional and not kwargs and len(args) == len(self.inputs):
            return args
        if self.all_keywords is not None and not args and len(kwargs) == len(self.all_keywords) and all(k in kwargs for k in self.all_keywords):
            return [kwargs[k] for k in self.all_keywords]
        return self.flattened(args, kwargs)

    def flattened(self, args, kwargs):
        """`flat` for arguments of any structure."""
        if self.spec is None:
            if kwargs:
                raise InputError("this engine was built without a signature and takes positional tensors only")
            return list(args)
        flat, spec = pytree.tree_flatten(self.arguments.bind(args, kwargs))
        if spec != self.spec and not structure.alike(spec, self.spec, flat):
            raise InputError(f"the arguments have the structure {spec}, but the model was compiled for {self.spec}")
        for i, expected in self.constants:
            if not same_constant(flat[i], expected):
                raise InputError(f"argument {i} is {shown(flat[i])}, but the model was compiled with {shown(expected)} there", remedy="compile it again for this value")
        return flat if self.complete else [flat[i] for i, leaf in enumerate(self.inputs) if "tensor" in leaf]

    def results(self, made, flat):
        """The model's results, from the tensors `made` by a run on `flat`."""
        if self.plain_outputs:
            if self.single:
                return made[0]
        else:
            made = [made[leaf["tensor"]] if "tensor" in leaf else size(flat) if size is not None else leaf["constant"] for leaf, size in zip(self.outputs, self.sizes)]
        if self.out_spec is None:
            return made[0] if self.single else tuple(made)
        return self.unflatten(made, self.out_spec)


def of_plan(engine) -> Form:
    """The form in an engine's plan. The plan may come from a file, so the form is checked against the engine."""
    found, inputs, outputs = engine.signature, engine.inputs(), engine.outputs()
    if "refused" in found:
        message, remedy = found["refused"]
        raise UnsupportedError(message, remedy=remedy)
    leaves = found.get("inputs", [{"tensor": i} for i in range(len(inputs))]), found.get("outputs", [{"tensor": i} for i in range(len(outputs))])
    _check_leaves(*leaves, inputs, outputs)
    spec, out_spec = _structures(found, *leaves)
    form = Form(*leaves, spec, out_spec, found.get("parameters", []), len(outputs))
    if out_spec is not None and structure.has_classes(out_spec):
        form.unflatten = structure.unflatten
    return form


def _check_leaves(inputs, outputs, taken, given):
    """taken, given: descriptions of the tensors that the engine takes and returns."""
    if (count := sum("tensor" in leaf for leaf in inputs)) != len(taken):
        raise FormatError(f"signature.inputs has {_op.count(count, 'tensor')}, and the engine {len(taken)}")
    for i, leaf in enumerate(outputs):
        if leaf.get("tensor", 0) >= max(len(given), 1) or "tensor" in leaf and not given:
            raise FormatError(f"signature.outputs[{i}].tensor is {leaf['tensor']}, and the engine has {len(given)}")
        for name, (position, axis, *_) in leaf["size"]["axes"].items() if "size" in leaf else ():
            if axis >= len(taken[position]["dims"]):
                raise FormatError(f"signature.outputs[{i}].size.axes.{name[:40]} is axis {axis} of input {position}, which has {len(taken[position]['dims'])}")


def _structures(found, inputs, outputs):
    """The structures of arguments and results; None for both if the signature has none."""
    if "in_spec" in found:
        specs = structure.read_of_torch(found["in_spec"], "signature.in_spec"), structure.read_of_torch(found["out_spec"], "signature.out_spec")
    elif "inputs" in found:
        specs = structure.read(found.get("in"), "signature.in"), structure.read(found.get("out"), "signature.out")
    else:
        return None, None
    structure.check_call(specs[0], "signature.in")
    for spec, leaves, what in ((specs[0], inputs, "in"), (specs[1], outputs, "out")):
        if spec.num_leaves != len(leaves) and "in_spec" in found:
            raise UnsupportedError(f"the model's {what}puts are not only tensors, and `ingot compile` keeps no other values", remedy="compile it with ingot.compile(torch.export.load(path)), and save that")
        if spec.num_leaves != len(leaves):
            raise FormatError(f"signature.{what} has {spec.num_leaves} leaves, and there are {len(leaves)} {what}puts")
    return specs
