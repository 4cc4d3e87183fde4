"""`torch.equal(a, b)` in a model's own code while torch.export traces, which takes it for a number to read. Here it is a tensor, which may be asserted (only_raises.py) and is known if it follows from
the model's own tensors (known_values.py). Where the model's code branches on it and the trace could not go on otherwise, the model is traced again: the tensors are taken for different ones, unless they
are computed alike, and an assertion in the graph refuses calls in which that is not so."""

from __future__ import annotations

import torch

from ...base import debug
from ...base.log import log
from ...torch_internals.tensors import is_fake
from ...torch_internals.tracing import node_of
from ...torch_internals.trees import pytree

_aten = torch.ops.aten
_EQUAL = (torch.equal, torch.Tensor.equal)


class EqualTensors(torch.overrides.TorchFunctionMode):
    """While torch exports. For one thread at a time (tracing.py)."""

    def __init__(self):
        super().__init__()
        self._answers: list[torch.Tensor] = []  # of the trace that runs
        self._assumed: dict[torch.fx.Node, bool] = {}

    def __enter__(self):
        self._answers.clear(), self._assumed.clear()
        return super().__enter__()

    def assumed(self, mode, asked, call, line: str) -> bool | None:
        """What an answer is taken for, if it is one of torch.equal. call(operator, arguments): records a node."""
        node = node_of(asked, mode)
        if node is not None and node.target is _aten.ne.Scalar and node.args[1] == 0:  # what bool() asks
            node = node.args[0]
        if node is None or all(node_of(answer, mode) is not node for answer in self._answers):
            return None
        if node not in self._assumed:
            alike = self._assumed[node] = computed_alike(*node.args[0].args)
            if asked.device.type != "cpu":
                log.warning("whether the tensors that %s compares are %s is not checked: the host would wait for the GPU", line, "equal" if alike else "different")
            said = f"the tensors that {line} compares are {'different' if alike else 'equal'}: the model was compiled for {'equal' if alike else 'different'} ones"
            call(_aten._assert_async.msg, asked if alike else call(_aten.logical_not.default, asked), said)
        return self._assumed[node]

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in _EQUAL and len(args) == 2 and not kwargs and _are_open(*args) and not debug.is_disabled("equal_tensors"):
            return self._equal(*args)
        return function(*args, **kwargs or {})

    def _equal(self, a, b):
        if a.dim() != b.dim() or any(x != y for x, y in zip(a.shape, b.shape)):
            return False
        self._answers.append((a == b).all())
        return self._answers[-1]


def _are_open(a, b) -> bool:
    """Whether nobody knows if they are equal."""
    return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.dtype == b.dtype and any(map(_is_open, (a, b)))


def _is_open(tensor) -> bool:
    return is_fake(tensor) and getattr(tensor, "constant", None) is None


def computed_alike(a: torch.fx.Node, b: torch.fx.Node) -> bool:
    """Whether two nodes have the same operator and, in the end, the same inputs. The graph may write in between: only an assertion says that the values are equal."""
    pairs, seen = [(a, b)], set()
    while pairs:
        pair = x, y = pairs.pop()
        if not (isinstance(x, torch.fx.Node) and isinstance(y, torch.fx.Node)):
            if type(x) is not type(y) or x != y:
                return False
        elif x is not y and pair not in seen:
            seen.add(pair)
            ours, theirs = (pytree.tree_flatten((node.args, node.kwargs)) for node in pair)
            if x.op != "call_function" or (x.op, x.target) != (y.op, y.target) or ours[1] != theirs[1]:
                return False
            pairs += zip(ours[0], theirs[0])
    return True
