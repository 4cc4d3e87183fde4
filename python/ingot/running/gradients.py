"""Calls in grad mode. Engines compute no gradients, so a result that requires gradients in eager gets a backward here that raises an error."""

from __future__ import annotations

import torch

from ..errors import InputError, UnsupportedError


class _Inference(torch.autograd.Function):
    """Runs a call. Results that require gradients in eager require them here, and their backward is an error."""

    @staticmethod
    def forward(ctx, requires, call, needed, args):
        results = tuple(call(*args))
        ctx.mark_non_differentiable(*[r for r, n in zip(results, needed) if not n and isinstance(r, torch.Tensor)])
        return results

    @staticmethod
    def backward(ctx, *gradients):
        raise UnsupportedError(
            'a gradient is asked for through a model that is compiled with backend="ingot", which is for inference alone',
            remedy="train the model without torch.compile, or with another backend of it; under torch.no_grad() nothing asks for gradients",
        )


def with_requirements(call, graph: torch.fx.Graph, examples: list):
    """`call`, or a function around it whose results require gradients where eager's do."""
    if not torch.is_grad_enabled():
        return call
    first = next((i for i, e in enumerate(examples) if isinstance(e, torch.Tensor) and e.requires_grad), None)
    if first is None:
        return call
    for node, example in zip((n for n in graph.nodes if n.op == "placeholder"), examples):
        traced = node.meta.get("example_value")
        if isinstance(traced, torch.Tensor) and traced.requires_grad and not example.requires_grad:
            raise InputError(
                "the compiled call would write a value that requires gradients into one of its inputs, but an ingot engine computes no gradients",
                remedy="call the model under torch.no_grad() or torch.inference_mode(), or model.requires_grad_(False)",
            )
    values = [n.meta.get("example_value") if isinstance(n, torch.fx.Node) else n for n in next(n for n in graph.nodes if n.op == "output").args[0]]
    needed = [isinstance(v, torch.Tensor) and v.requires_grad for v in values]
    if not any(needed):
        return call

    def run(*args):
        return _Inference.apply(args[first], call, needed, args)

    return run
