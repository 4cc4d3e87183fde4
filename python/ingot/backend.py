"""`torch.compile(model, backend="ingot")`."""

from __future__ import annotations

import operator

import torch
from torch._functorch.aot_autograd import aot_export_module

from . import _engine, _op
from .capture import from_functional
from .errors import InputError


def ingot_backend(module: torch.fx.GraphModule, example_inputs, *, options=None, **ignored):
    """The backend that the entry point group `torch_dynamo_backends` names.

    Weights are recognised among the graph's inputs and bound once; a replaced or changed weight is noticed at the next call.
    Options are those of `ingot.compile`; an unknown one raises OptionError.
    """
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    examples = [_example(node, value) for node, value in zip(placeholders, example_inputs)]
    if torch.is_grad_enabled() and any(isinstance(e, torch.Tensor) and e.requires_grad for e in examples):
        raise InputError(
            "the compiled call would need gradients, and an ingot engine has none",
            remedy="call the model under torch.no_grad() or torch.inference_mode(), or model.requires_grad_(False)",
        )
    fakes = [node.meta.get("example_value", value) for node, value in zip(placeholders, example_inputs)]
    with torch.no_grad():
        functional, signature = aot_export_module(module, fakes, trace_joint=False, pre_dispatch=True)
    if signature.user_inputs_to_mutate or signature.buffers_to_mutate or signature.parameters_to_mutate:
        changed = next(iter({**signature.user_inputs_to_mutate, **signature.buffers_to_mutate, **signature.parameters_to_mutate}.values()))
        from .errors import UnsupportedError

        raise UnsupportedError(f"the model changes {changed!r} in place, which is not supported yet", remedy="return the new value instead")
    names = [_name(node) for node in placeholders]
    weights = {i: (names[i], examples[i]) for i, node in enumerate(placeholders) if _is_weight(node, examples[i])}
    captured = from_functional(functional, weights, names)
    model = _engine.Model.from_json(captured.json, captured.weights)
    engine = _engine.Engine(model.compile(options or {}), keep=[t for _, t in captured.weights])
    compiled = _Compiled(engine, captured, placeholders, examples, weights)
    return compiled.straight() if compiled.is_straight(len(placeholders)) else compiled


def _example(node, value):
    """The real tensor behind a placeholder where Dynamo has it."""
    return getattr(node.meta.get("grapharg"), "example", value)


def _source(node):
    return getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")


def _name(node):
    name = _source(node)
    return name() if callable(name) else name or node.name


def _is_weight(node, example):
    if isinstance(example, torch.nn.Parameter):
        return True
    source = _name(node)
    return isinstance(example, torch.Tensor) and ("._buffers[" in source or "._parameters[" in source)


class _Compiled:
    """What Dynamo calls: takes all inputs of the graph, weights included."""

    def __init__(self, engine, captured, placeholders, examples, weights):
        self._runner = _op.Runner(engine)
        self.engine = engine
        tensors = [isinstance(n.meta.get("example_value"), torch.Tensor) for n in placeholders]
        self._inputs = [i for i, tensor in enumerate(tensors) if tensor and i not in weights]
        self._weights = list(weights)
        self._names = [weights[i][0] for i in self._weights]
        self._bind([weights[i][1] for i in self._weights])
        self._pick_weights = _picker(self._weights)
        self._pick_inputs = _picker(self._inputs)
        self._outputs = captured.outputs
        self._plain = all(kind == "tensor" for kind, _ in captured.outputs)
        self._symbols = {}
        for i, node in enumerate(placeholders):
            meta = node.meta.get("example_value")
            if isinstance(meta, torch.SymInt) and meta.node.expr.is_Symbol:
                self._symbols[meta.node.expr] = lambda args, i=i: args[i]
            elif isinstance(meta, torch.Tensor):
                for axis, size in enumerate(meta.shape):
                    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                        self._symbols.setdefault(size.node.expr, lambda args, i=i, axis=axis: args[i].shape[axis])

    def _bind(self, weights):
        """The weights the engine holds, and how often they have been written: what each call compares."""
        self._bound = list(weights)
        self._counted = [t for t in self._bound if not t.is_inference()]
        self._versions = sum(map(_version, self._counted))

    def is_straight(self, count):
        """All arguments go in as they come, all results come back as they are."""
        return not self._weights and self._plain and self._inputs == list(range(count))

    def straight(self):
        """The call of such a graph, without what the others need: a microsecond less."""
        run = self._runner

        def call(*args):
            return run(list(args))

        call.engine = self.engine
        return call

    def __call__(self, *args):
        given = self._pick_weights(args)
        if not all(map(operator.is_, given, self._bound)) or sum(map(_version, self._counted)) != self._versions:
            self.engine.update_weights(dict(zip(self._names, (t.detach() for t in given))))
            self._bind(given)
        results = self._runner(list(self._pick_inputs(args)))
        if self._plain:
            return results
        return [results[v] if kind == "tensor" else self._size(v, args) if kind == "size" else v for kind, v in self._outputs]

    def _size(self, expression, args):
        return int(expression.subs({s: self._symbols[s](args) for s in expression.free_symbols}))


_version = operator.attrgetter("_version")


def _picker(indices):
    """operator.itemgetter that always gives a tuple."""
    if not indices:
        return lambda args: ()
    if len(indices) == 1:
        only = indices[0]
        return lambda args: (args[only],)
    return operator.itemgetter(*indices)
