"""Complex numbers as pairs of real ones: a pass over an exported graph. Engines have no complex types, so without it every complex operator runs in torch.

Each operator that reads or makes a complex value is traced once on torch's ComplexTensor, which holds the two parts as tensors of their own, and the real operators of that trace take its
place. All other nodes stay as they are, with their names and the user's lines.
"""

from __future__ import annotations

import copy
import importlib.util
import logging
import operator

import torch
import torch.utils._pytree as pytree
from torch.fx.experimental.proxy_tensor import make_fx

from .errors import UnsupportedError

log = logging.getLogger("ingot")
_aten = torch.ops.aten
_PARTS = "torch._subclasses.complex_tensor"


def known_to_torch() -> bool:
    """Whether this torch has the rules of complex arithmetic."""
    return importlib.util.find_spec(_PARTS) is not None


def present(graph: torch.fx.Graph) -> bool:
    """Whether a graph has complex values."""
    return any(_is_complex(leaf) for node in graph.nodes for leaf in pytree.tree_leaves(_value(node)))


def as_pairs(gm: torch.fx.GraphModule, interleaved: bool = False) -> torch.fx.GraphModule:
    """Rewrites the graph in place, so that it computes with real numbers.

    interleaved: complex inputs and results are real tensors with one more axis of size 2, as torch.view_as_real gives them. Otherwise they stay complex, and are taken apart and put
        together at the ends of the graph.

    An operator without a rule (torch.fft, say) stays complex. The nodes need the values that torch.export records. Raises UnsupportedError for writes to complex tensors; then the graph is
    left half rewritten.
    """
    pairs = _Pairs(gm, interleaved)
    for node in list(gm.graph.nodes):
        pairs.visit(node)
    for node in reversed(pairs.done):
        if not node.users:
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    return gm


def without_complex(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A pass of `ingot.compile(passes=)`: the graph of as_pairs, or the graph itself where it writes complex tensors, which is logged. Complex operators then run in torch."""
    try:
        return as_pairs(torch.fx.GraphModule(gm, copy.deepcopy(gm.graph)))
    except UnsupportedError as problem:
        log.warning("complex numbers stay in torch: %s", problem.message)
        return gm


without_complex.wanted_by = lambda program: known_to_torch() and present(program.graph)


class _Pairs:
    """parts: for each complex node so far its real and imaginary node; of a node with several results, a list of such pairs and of nodes. whole: complex nodes that stay in the graph.
    done: nodes that go where nothing reads them."""

    def __init__(self, gm, interleaved):
        self.gm, self.graph, self.interleaved, self.parts, self.whole, self.done = gm, gm.graph, interleaved, {}, set(), []

    def visit(self, node):
        if node.op == "output":
            with self.graph.inserting_before(node):
                node.args = torch.fx.node.map_arg(node.args, self._result)
        elif node.op in ("placeholder", "get_attr"):
            if _is_complex(_value(node)):
                self._take_apart(node)
        elif node.op == "call_module" and not node.users and any(source in self.parts for source in node.all_input_nodes):
            self.graph.erase_node(node)  # torch.export's guards on the inputs
        elif node.target is operator.getitem and node.args[0] in self.parts:
            made = self.parts[node.args[0]][node.args[1]]
            self._made(node, made)
        elif any(source in self.parts for source in node.all_input_nodes) or any(map(_is_complex, pytree.tree_leaves(_value(node)))):
            self._replace(node)

    def _take_apart(self, node):
        """The parts of an input or a constant."""
        value = _value(node)
        behind = node.next  # inputs and constants stay in front: a graph of torch.export's may have its constants before its inputs
        while behind.op in ("placeholder", "get_attr"):
            behind = behind.next
        with self.graph.inserting_before(behind), value.fake_mode:
            if node.op == "placeholder" and self.interleaved:
                node.meta["val"] = value.new_empty((*value.shape, 2), dtype=value.real.dtype)
                node.meta.pop("tensor_meta", None)
                ends = node
            else:
                ends = self._call(_aten.view_as_real.default, (node,), node)
            self.parts[node] = tuple(self._call(_aten.select.int, (ends, -1, part), node) for part in (0, 1))
        self.done += [end for end in (ends, *self.parts[node]) if end is not node]  # where nothing reads the parts
        if ends is not node:
            self.whole.add(node)

    def _call(self, target, args, of):
        made = self.graph.call_function(target, args)
        made.meta = {**{k: v for k, v in of.meta.items() if k not in ("val", "tensor_meta")}, "val": target(*torch.fx.node.map_arg(args, _value))}
        return made

    def _result(self, node):
        if node not in self.parts:
            return node
        if not self.interleaved:
            return self._complex(node)
        with _value(self.parts[node][0]).fake_mode:
            return self._call(_aten.stack.default, (list(self.parts[node]), -1), node)

    def _complex(self, node):
        if node in self.whole:
            return node
        with _value(self.parts[node][0]).fake_mode:
            return self._call(_aten.complex.default, self.parts[node], node)

    def _made(self, node, made):
        """Notes what stands for a node."""
        self.done.append(node)
        if isinstance(made, torch.fx.Node):
            node.replace_all_uses_with(made)
        else:
            self.parts[node] = made

    def _keep(self, node):
        """Leaves an operator on complex numbers, which are put together in front of it, and taken apart behind it."""
        with self.graph.inserting_before(node):
            joined = {source: self._complex(source) for source in node.all_input_nodes if source in self.parts}
        node.args, node.kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: joined.get(n, n))
        if _is_complex(_value(node)):
            self._take_apart(node)

    def _replace(self, node):
        """Puts the real operators of one complex operator in its place. One without a rule keeps its complex operands."""
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            raise UnsupportedError(f"{node.target} writes complex numbers in place")
        makes = not any(source in self.parts for source in node.all_input_nodes)  # complex values of real ones
        if not isinstance(node.target, torch._ops.OpOverload) or makes and node.target.overloadpacket not in _MAKERS:
            return self._keep(node)
        sources = []
        leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
        for leaf in leaves:
            for part in self.parts.get(leaf, (leaf,)) if isinstance(leaf, torch.fx.Node) else ():
                sources.append(part)
        shapes = []

        def run(*given):
            given = iter(given)
            values = [(_tensor(next(given), next(given)) if leaf in self.parts else next(given)) if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
            args, kwargs = pytree.tree_unflatten(values, spec)
            found, form = pytree.tree_flatten(_computed(node.target, args, kwargs))
            shapes[:] = [form, [hasattr(leaf, "re") for leaf in found]]
            return [part for leaf in found for part in ((leaf.re, leaf.im) if hasattr(leaf, "re") else (leaf,))]

        try:
            with _mode_of(node, sources):
                traced = make_fx(run)(*map(_value, sources))
        except Exception:  # of any kind: torch's rules say what they lack
            log.debug("%s stays complex", node.target, exc_info=True)
            return self._keep(node)
        form, complexes = shapes
        parts = iter(self._inlined(node, traced, sources))
        made = [(next(parts), next(parts)) if is_pair else next(parts) for is_pair in complexes]
        self._made(node, made[0] if form.is_leaf() else made)

    def _inlined(self, node, traced, sources):
        """Copies a trace in front of the node. Gives the nodes of its results."""
        traced.graph.eliminate_dead_code(lambda n: n.op in ("output", "placeholder"))  # torch's rules ask for pinned memory, which nothing reads
        env, inputs = {}, iter(sources)
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                env[inner] = next(inputs)
            elif inner.op == "output":
                return [env[n] if isinstance(n, torch.fx.Node) else n for n in inner.args[0]]
            elif inner.target is _aten.detach.default:
                env[inner] = env[inner.args[0]]
            else:
                with self.graph.inserting_before(node):
                    env[inner] = self.graph.node_copy(inner, lambda n: env[n])
                env[inner].meta = {**{k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}, "val": _value(inner)}
                if inner.op == "get_attr":
                    name = f"_complex_constant_{sum(hasattr(self.gm, f'_complex_constant_{i}') for i in range(1000))}"
                    self.gm.register_buffer(name, getattr(traced, inner.target), persistent=False)
                    env[inner].target = name


def _value(node):
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else node


def _is_complex(value) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype.is_complex


def _tensor(re, im):
    from torch._subclasses.complex_tensor import ComplexTensor

    return ComplexTensor(re, im)


def _mode_of(node, sources):
    """The mode of the fake tensors around a node."""
    fakes = [v for n in (*sources, node) for v in pytree.tree_leaves(_value(n)) if isinstance(v, torch._subclasses.FakeTensor)]
    return fakes[0].fake_mode


def _computed(target, args, kwargs):
    """The operator on ComplexTensors. Operators that make complex values of real ones get theirs here."""
    packet = target.overloadpacket
    if packet in _MAKERS:
        return _MAKERS[packet](*args, **kwargs)
    from torch._subclasses.complex_tensor import ComplexTensor, WrapComplexMode

    if packet in _OWN and any(isinstance(a, ComplexTensor) for a in args):
        return _OWN[packet](*args, **kwargs)
    with WrapComplexMode():
        return target(*args, **kwargs)


def _polar(length, angle):
    return _tensor(length * torch.cos(angle), length * torch.sin(angle))


def _viewed(x):
    return _tensor(x.select(-1, 0), x.select(-1, 1))


_MAKERS = {_aten.complex: lambda re, im: _tensor(re, im), _aten.polar: _polar, _aten.view_as_complex: _viewed}


def _logarithm(base):
    def rule(x):
        made = _aten.log.default(x)
        scale = 1 / torch.log(torch.tensor(base, dtype=torch.float64)).item()
        return _tensor(made.re * scale, made.im * scale)

    return rule


def _on_each(target):
    """The rule of an operator that only moves elements."""
    return lambda x, *args, **kwargs: _tensor(target(x.re, *args, **kwargs), target(x.im, *args, **kwargs))


def _parts_of(x):
    """The parts of a value that may be real."""
    if hasattr(x, "re"):
        return x.re, x.im
    return (x, 0) if isinstance(x, torch.Tensor) else (complex(x).real, complex(x).imag)


def _divided(x, y, **rounding):
    """A quotient whose parts neither overflow nor vanish on the way: torch's rule squares the divisor's length."""
    (a, b), (c, d) = _parts_of(x), _parts_of(y)
    if not isinstance(d, torch.Tensor) and d == 0:
        return _tensor(torch.div(a, c, **rounding), torch.div(b, c, **rounding))
    c, d = (part if isinstance(part, torch.Tensor) else torch.full_like(x.re, part) for part in (c, d))
    size = torch.maximum(c.abs(), d.abs())
    size = torch.where(size == 0, 1, size)
    c, d = c / size, d / size
    length = c * c + d * d
    return _tensor((a * c + b * d) / length / size, (b * c - a * d) / length / size)


def _power(x, exponent):
    """Small whole powers are products, as in eager. torch's rule for others takes the logarithm, which a base of 0 does not have."""
    if isinstance(exponent, (int, float)) and exponent in range(1, 9):
        made = x
        for _ in range(int(exponent) - 1):
            made = _tensor(made.re * x.re - made.im * x.im, made.re * x.im + made.im * x.re)
        return made
    from torch._subclasses.complex_tensor import WrapComplexMode

    with WrapComplexMode():
        made = _aten.pow(x, exponent)
    (re, im), (grows, _) = _parts_of(x), _parts_of(exponent)
    if not isinstance(grows, torch.Tensor) and grows <= 0 or not isinstance(re, torch.Tensor) and x != 0:
        return made
    zero = torch.as_tensor((re == 0) & (im == 0), device=made.re.device) & torch.as_tensor(grows > 0, device=made.re.device)
    return _tensor(torch.where(zero, 0, made.re), torch.where(zero, 0, made.im))


def _filled(x, value, *, dtype=None, **options):
    if dtype is not None and not dtype.is_complex:
        return torch.full_like(x.re, value, dtype=dtype)
    kind = None if dtype is None else torch.empty((), dtype=dtype, device="meta").real.dtype
    return _tensor(torch.full_like(x.re, complex(value).real, dtype=kind), torch.full_like(x.im, complex(value).imag, dtype=kind))


# Where torch has no rule, or one with other results.
_OWN = {
    _aten.div: _divided,
    _aten.true_divide: _divided,
    _aten.reciprocal: lambda x: _divided(1, x),
    _aten.pow: _power,
    _aten.log2: _logarithm(2.0),
    _aten.log10: _logarithm(10.0),
    _aten.full_like: _filled,
    _aten.ones_like: lambda x, **options: _filled(x, 1, **options),
    _aten.zeros_like: lambda x, **options: _filled(x, 0, **options),
} | {packet: _on_each(packet) for packet in (_aten.roll, _aten.take, _aten.tril, _aten.triu, _aten.diag_embed, _aten.unfold, _aten.lift_fresh_copy)}
