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

import ingot
from ingot import backend
from ingot.capture import composites

ALL = os.environ.get("INGOT_TEST_ALL") == "1"
EVERY = 1 if ALL else 16  # one in so many operators


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
    "corrcoef": "torch.compile does not take it",
    "cov": "torch.compile does not take it",
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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("function", [torch.cov, torch.corrcoef])
def test_a_composite_that_asks_about_numbers_is_whole(function, weighted):
    """torch.cov asks whether weights are negative, and whether there are enough observations. A trace has no answer."""

    class Model(torch.nn.Module):
        def forward(self, x, weights):
            return function(x * 2, aweights=weights) if weighted else function(x * 2) + weights.sum()

    if weighted and function is torch.corrcoef:
        pytest.skip("it takes no weights")
    x, weights = torch.randn(3, 5), torch.rand(5)
    with torch.no_grad():
        module = ingot.compile(Model(), inputs=[x, weights], min_block_size=1)
        assert {n["target"] for n in module.report.nodes} >= {f"aten.{function.__name__}.default"}
        assert module.report.whole is not weighted
        torch.testing.assert_close(module(x, weights), Model()(x, weights))
        if weighted:  # torch's own check
            with pytest.raises(RuntimeError, match="cannot be negative"):
                module(x, weights - 1)


def test_beside_a_composite_that_asks_autocast_reaches_the_parts_of_others():
    class Model(torch.nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                y = torch.einsum("ij,kj->ik", x, x)
            return y, torch.cov(y.float())

    x = torch.randn(4, 5)
    with torch.no_grad():
        for ours, eager in zip(ingot.compile(Model(), inputs=[x])(x), Model()(x)):
            torch.testing.assert_close(ours, eager)


def test_the_type_of_a_composite_that_asks_follows_from_answers_it_accepts():
    def twice(x):
        torch._check(torch.equal(x.sum(), x.sum() + 0), lambda: "the first answer is yes")
        torch._check(not torch.equal(x, x + 1), lambda: "the second answer is no")
        torch._check(x.dim() == 1, lambda: "a vector")
        return torch.cat([x, x]) if torch.equal(x.amax(), x.amin() + 1) else torch.cat([x, x + 1])

    with torch._subclasses.FakeTensorMode() as mode:
        vector, matrix = torch.empty(3), torch.empty(3, 3)
    assert composites._typed(twice, mode, None, vector).shape == (6,)
    with pytest.raises(RuntimeError):
        composites._typed(twice, mode, None, matrix)
