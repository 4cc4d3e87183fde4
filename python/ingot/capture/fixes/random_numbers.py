"""Random numbers that an engine makes itself, in graphs of which nothing may stay in torch. torch traces the graph again, which has Python functions then.

With torch, random operators stay torch's: their numbers are those of eager, by torch.manual_seed. An engine by itself has no generator of torch's. There a number is Philox of (key, position in
its tensor, number of the call), in integer operators that engines have. The key and the number of calls are a buffer of the program, `ingot_random`, which counts each run, and each turn of a loop that
draws. The key is drawn from torch's generator when the program is compiled.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator

import torch

from ...torch_internals.operators import HigherOrderOperator, OpOverload
from ..traced import Traced

STATE = "ingot_random"
_aten = torch.ops.aten
_WORD = 0xFFFFFFFF
_PLACEMENT = ("device", "layout", "pin_memory", "memory_format", "generator")
_DIGITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


def philox(key: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Philox2x32 with 10 rounds. Words of 32 bits in int64, whose products wrap."""
    for _ in range(10):
        product = low * 0xD256D193
        low, high = ((product >> 32) & _WORD) ^ key ^ high, product & _WORD
        key = (key + 0x9E3779B9) & _WORD
    return low, high


def wanted(traced: Traced) -> bool:
    return traced.in_aten and any(map(_draws, _nodes(traced.module)))


def apply(traced: Traced):
    """Random operators become arithmetic on the buffer `ingot_random`. Where the weights are inputs, it is the last input."""
    gm = traced.editable()
    state = _first_state(gm)
    if traced.weights_are_inputs:
        traced.random_state = state
        _replace_all(gm, _last_input(gm.graph))
        return
    gm.register_buffer(STATE, state)
    with gm.graph.inserting_before(next(iter(gm.graph.nodes))):
        _replace_all(gm, gm.graph.get_attr(STATE))


def _first_state(gm) -> torch.Tensor:
    return torch.stack([torch.randint(0, _WORD + 1, ()), torch.zeros((), dtype=torch.int64)]).to(next(filter(_draws, _nodes(gm))).meta["val"].device)


def _last_input(graph):
    last = [n for n in graph.nodes if n.op == "placeholder"][-1:]
    with graph.inserting_after(*last) if last else graph.inserting_before(next(iter(graph.nodes))):
        return graph.placeholder(STATE)


def _replace_all(gm, state):
    _replace(gm, state, itertools.count())
    _count(gm, state)


def remain(gm: torch.fx.GraphModule) -> bool:
    """Whether a graph of ATen's operators draws random numbers, of any kind."""
    return any(isinstance(node.target, OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags for node in _nodes(gm))


def _nodes(gm):
    """Those of a graph and of its regions."""
    return (node for module in gm.modules() if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes)


def _replace(gm, state, numbers):
    """numbers: of the operators, each its own."""
    for node in list(gm.graph.nodes):
        if _draws(node):
            with gm.graph.inserting_before(node):
                arguments = {k: v for k, v in node.kwargs.items() if k not in _PLACEMENT}
                made = gm.graph.call_function(_MAKERS[node.target], (state, next(numbers), *node.args), arguments)
            made.meta = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
            node.replace_all_uses_with(made)
            gm.graph.erase_node(node)
        elif isinstance(node.target, HigherOrderOperator):
            _replace_in_regions(gm, node, state, numbers)
    gm.recompile()


def _replace_in_regions(gm, node, state, numbers):
    """The regions of an operator get the state as their last input. A loop counts each turn."""
    regions = {a.target: getattr(gm, a.target) for a in node.args if isinstance(a, torch.fx.Node) and a.op == "get_attr" and isinstance(getattr(gm, a.target), torch.fx.GraphModule)}
    if not any(_draws(n) for region in regions.values() for n in _nodes(region)):
        return
    for name, region in regions.items():
        region = torch.fx.GraphModule(region, copy.deepcopy(region.graph))
        inside = _last_input(region.graph)
        _replace(region, inside, numbers)
        if node.target is torch.ops.higher_order.while_loop and name == node.args[1].target:
            _count(region, inside)
        setattr(gm, name, region)
    *others, last = node.args
    node.args = (*others, (*last, state)) if isinstance(last, (tuple, list)) else (*node.args, state)


def _count(gm, state):
    with gm.graph.inserting_before(gm.graph.output_node()):
        gm.graph.call_function(_counted, (state,))
    gm.recompile()


def _draws(node) -> bool:
    return node.op == "call_function" and node.target in _MAKERS and (node.target is not _aten.dropout.default or (node.args[2] and node.args[1] > 0))


def _counted(state):
    state.add_(torch.arange(2, device=state.device))  # one call more, or one turn


def _words(state, number, size):
    """Two words for each element of a tensor of this size."""
    index = torch.arange(functools.reduce(operator.mul, size, 1), device=state.device)
    low, high = philox((state[0] + number * 0x85EBCA6B) & _WORD, index & _WORD, (state[1] + (index >> 32)) & _WORD)
    return low.reshape(size), high.reshape(size)


def _uniform(state, number, size, dtype=None):
    """In [0, 1), with as many digits as the type has."""
    dtype = dtype or torch.get_default_dtype()
    digits = _DIGITS[dtype]
    low, high = _words(state, number, size)
    return ((low << 21 | high >> 11) if digits > 32 else low >> (32 - digits)).to(dtype) * 2.0**-digits


def _above_zero(word, dtype):
    """In (0, 1]."""
    return (word.to(dtype) + 1) * 2.0**-32


def _normal(state, number, size, dtype=None):
    """By the transform of Box and Muller."""
    dtype = dtype or torch.get_default_dtype()
    low, high = _words(state, number, size)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return (torch.sqrt(-2 * torch.log(_above_zero(low, wide))) * torch.cos(high.to(wide) * (2 * math.pi * 2.0**-32))).to(dtype)


def _whole(state, number, size):
    """Integers of 63 bits."""
    low, high = _words(state, number, size)
    return low << 31 | high >> 1


def _integers(state, number, low, high, size, dtype=None):
    return (_whole(state, number, size) % (high - low) + low).to(dtype or torch.int64)


def _wide(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _happens(state, number, x, p):
    return (_uniform(state, number, x.shape, _wide(x)) < p).to(x.dtype)


def _dropout(state, number, x, p, train):
    kept = _uniform(state, number, x.shape, torch.float32) >= p
    return torch.where(kept, x * (1 / (1 - p) if p < 1 else 0.0), 0.0)


def _exponential(state, number, x, lambd=1.0):
    low, _ = _words(state, number, x.shape)
    return (torch.log(_above_zero(low, _wide(x))) * (-1 / lambd)).to(x.dtype)


def _spread(mean, std, like):
    return lambda state, number: _normal(state, number, like.shape, like.dtype) * std + mean


# By operator: a function of the buffer, the number of the operator in its program, and the operator's arguments.
_MAKERS = {
    _aten.rand.default: _uniform,
    _aten.randn.default: _normal,
    _aten.rand_like.default: lambda state, number, x, dtype=None: _uniform(state, number, x.shape, dtype or x.dtype),
    _aten.randn_like.default: lambda state, number, x, dtype=None: _normal(state, number, x.shape, dtype or x.dtype),
    _aten.randint.default: lambda state, number, high, size, dtype=None: _integers(state, number, 0, high, size, dtype),
    _aten.randint.low: _integers,
    _aten.randint_like.default: lambda state, number, x, high, dtype=None: _integers(state, number, 0, high, x.shape, dtype or x.dtype),
    _aten.randint_like.low_dtype: lambda state, number, x, low, high, dtype=None: _integers(state, number, low, high, x.shape, dtype or x.dtype),
    _aten.randperm.default: lambda state, number, n, dtype=None: torch.argsort(_whole(state, number, (n,))).to(dtype or torch.int64),
    _aten.bernoulli.default: lambda state, number, x: _happens(state, number, x, x),
    _aten.bernoulli.p: _happens,
    _aten.bernoulli_.float: lambda state, number, x, p=0.5: x.copy_(_happens(state, number, x, p)),
    _aten.dropout.default: _dropout,
    _aten.uniform_.default: lambda state, number, x, low=0.0, high=1.0: x.copy_(_uniform(state, number, x.shape, x.dtype) * (high - low) + low),
    _aten.normal_.default: lambda state, number, x, mean=0.0, std=1.0: x.copy_(_spread(mean, std, x)(state, number)),
    _aten.normal.Tensor_Tensor: lambda state, number, mean, std: _spread(mean, std, torch.broadcast_tensors(mean, std)[0])(state, number),
    _aten.normal.Tensor_float: lambda state, number, mean, std=1.0: _spread(mean, std, mean)(state, number),
    _aten.normal.float_Tensor: lambda state, number, mean, std: _spread(mean, std, std)(state, number),
    _aten.exponential_.default: lambda state, number, x, lambd=1.0: x.copy_(_exponential(state, number, x, lambd)),
}
