"""A composite that has a row stays one operator, and one that has none is decomposed: by torch.export, by torch.compile and in programs that are made functional."""

from __future__ import annotations

import contextlib
import os
import warnings

import pytest
import torch
from torch._export.utils import _is_cia_op
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from ingot import backend, composites

ALL = os.environ.get("INGOT_TEST_ALL") == "1"
EVERY = 1 if ALL else 4  # one in so many operators


class Sample(torch.nn.Module):
    """A call of an operator. Tensors are inputs, everything else is a constant."""

    def __init__(self, op, sample):
        super().__init__()
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = tuple(self.leaves[i].detach() for i in self.places)

    def forward(self, *tensors):
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op.op(*args, **kwargs)


def targets(graph):
    return {n.target for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload)}


def exported(sample):
    return torch.export.export(sample, sample.tensors)


def just_in_time(sample):
    """The operators of the graphs that torch.compile gives ingot, after it made them functional."""
    found = set()

    def collect(module, given):
        fakes = [n.meta["example_value"] for n in module.graph.nodes if n.op == "placeholder"]
        found.update(targets(backend._functionalised(module, fakes)[0].graph))
        return module

    torch._dynamo.reset()
    torch.compile(sample, backend=collect)(*sample.tensors)
    return found


def is_kept(op) -> bool:
    """True for a composite with a row that torch's own functional graphs may hold: it neither writes nor returns a view."""
    return _is_cia_op(op) and composites.has_row(op) and not op._schema.is_mutable and not any(a.alias_info for a in op._schema.arguments)


# The graphs of these have other operators for another reason.
APART = {
    "native_batch_norm": "torch always decomposes it",
    "corrcoef": "torch.export does not take it",
    "cov": "torch.export does not take it",
}


@pytest.mark.parametrize("op", [op for op in op_db[::EVERY] if op.supports_dtype(torch.float32, "cpu")], ids=lambda op: ".".join(filter(None, (op.name, op.variant_test_name))))
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode] if ALL else [torch.no_grad], ids=lambda mode: mode.__name__)
def test_composites(op, mode):
    torch.manual_seed(0)
    if op.name in APART:
        pytest.skip(APART[op.name])
    with mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = Sample(op, next(iter(list(op.sample_inputs("cpu", torch.float32)))))
        try:
            program = exported(sample)
        except Exception:
            pytest.skip("torch.export does not take it")
        kept = set(filter(is_kept, targets(program.graph)))
        with contextlib.suppress(backend.NotFunctional):
            if not (found := just_in_time(sample)):
                pytest.skip("torch.compile takes no graph of it")
            assert kept <= found, f"only by torch.export: {kept - found}"
            left = {o for o in found if _is_cia_op(o) and not composites.has_row(o) and not o._schema.is_mutable}
            assert not left, f"composites without a row: {left}"
