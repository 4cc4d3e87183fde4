"""Complex numbers as pairs of real ones: a pass over each graph that has any. Engines have no complex types, so without it every complex operator runs in torch.

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
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from . import fourier
from .errors import UnsupportedError
from .overlap import copied, gives_new, of_memory, updated

log = logging.getLogger("ingot")
_aten, _prims = torch.ops.aten, torch.ops.prims
_COMPOSED = ("aten::fft_", "aten::stft", "aten::istft")
_PARTS = "torch._subclasses.complex_tensor"


def known_to_torch() -> bool:
    """Whether this torch has the rules of complex arithmetic."""
    return importlib.util.find_spec(_PARTS) is not None


def present(graph: torch.fx.Graph) -> bool:
    """Whether a graph has complex values, or operators that compute with some inside."""
    return any(_is_composed_transform(node) or any(map(_is_complex, pytree.tree_leaves(_value(node)))) for node in graph.nodes)


def as_pairs(gm: torch.fx.GraphModule, interleaved: bool = False) -> torch.fx.GraphModule:
    """Rewrites the graph in place, so that it computes with real numbers.

    interleaved: complex inputs and results are real tensors with one more axis of size 2, as torch.view_as_real gives them. Otherwise they stay complex, and are taken apart and put
        together at the ends of the graph.

    An operator without a rule (torch.cumprod, say) stays complex. The nodes need the values that torch.export records. Raises UnsupportedError for writes to complex tensors; then the graph is
    left half rewritten.
    """
    pairs = _Pairs(gm, interleaved)
    with enable_python_dispatcher():  # torch's definitions in C++ would fix open sizes
        for node in list(gm.graph.nodes):
            pairs.visit(node)
    for node in reversed(pairs.done):
        if not node.users:
            gm.graph.erase_node(node)
    gm.graph.lint()
    gm.recompile()
    return gm


def settle(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Does as_pairs where a graph that writes nothing in place has complex values. Operators without a rule stay, and run in torch."""
    return as_pairs(gm) if known_to_torch() and present(gm.graph) else gm


def settled(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with pairs of real numbers."""
    if not known_to_torch() or not present(program.graph):
        return program
    module, results = copied(program), _results(program.graph)
    as_pairs(module)
    return updated(program, module, {old.name: new.name for old, new in zip(results, _results(module.graph)) if isinstance(old, torch.fx.Node) and old.name != new.name})


def without_complex(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A pass of `ingot.compile(passes=)`: the graph of as_pairs, or the graph itself where it writes complex tensors, which is logged. Complex operators then run in torch."""
    try:
        return as_pairs(torch.fx.GraphModule(gm, copy.deepcopy(gm.graph)))
    except UnsupportedError as problem:
        log.warning("complex numbers stay in torch: %s", problem.message)
        return gm


without_complex.wanted_by = lambda program: known_to_torch() and present(program.graph)


def real_view(slot) -> tuple[torch.fx.Node, torch.Tensor | None]:
    """The node and the tensor that an engine takes for a slot: of a complex weight that only its parts read, the real view."""
    node, way = slot.node, [_aten.resolve_conj.default, _aten.view_as_real.default]
    while way and slot.kind == "weight" and _is_complex(slot.tensor) and [user.target for user in node.users] == way[:1]:
        (node,), way = node.users, way[1:]
    return (slot.node, slot.tensor) if way else (node, torch.view_as_real(slot.tensor.detach().resolve_conj()))


class _Pairs:
    """parts: for each complex node so far its real and imaginary node; of a node with several results, a list of such pairs and of nodes. whole: complex nodes that stay in the graph.
    done: nodes that go where nothing reads them. given: the memory of inputs and constants."""

    def __init__(self, gm, interleaved):
        self.gm, self.graph, self.interleaved, self.parts, self.whole, self.done = gm, gm.graph, interleaved, {}, set(), []
        self.given = {of_memory(_value(node)) for node in gm.graph.nodes if node.op in ("placeholder", "get_attr")} - {None}

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
        elif any(source in self.parts for source in node.all_input_nodes) or any(map(_is_complex, pytree.tree_leaves(_value(node)))) or _is_composed_transform(node):
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
                whole = self._call(_aten.resolve_conj.default, (node,), node)  # the caller's tensor may be a lazy conjugate
                ends = self._call(_aten.view_as_real.default, (whole,), node)
                self.whole.add(whole)
                self.done.append(whole)
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
        if node in self.whole or not self.interleaved and not gives_new(node) and of_memory(_value(node)) in self.given:  # a view of an input stays one
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
        if not isinstance(node.target, torch._ops.OpOverload):
            return self._keep(node)
        if _is_composed_transform(node):
            return self._compose(node)
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
                traced.graph.eliminate_dead_code(lambda n: n.op in ("output", "placeholder"))  # torch's rules ask for pinned memory and make numbers complex, which nothing reads
                if _lacks_rule(traced.graph):
                    raise NotImplementedError("an operator of the trace has no rule")
        except Exception:  # of any kind: torch's rules say what they lack
            log.debug("%s stays complex", node.target, exc_info=True)
            return self._keep(node)
        form, complexes = shapes
        parts = iter(self._inlined(node, traced, sources))
        made = [(next(parts), next(parts)) if is_pair else next(parts) for is_pair in complexes]
        self._made(node, made[0] if form.is_leaf() else made)

    def _compose(self, node):
        """Puts the operators of which torch composes one in its place, and visits each."""
        leaves, spec = pytree.tree_flatten((node.args, dict(node.kwargs)))
        sources = [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]

        def run(*given):
            given = iter(given)
            args, kwargs = pytree.tree_unflatten([next(given) if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves], spec)
            return [node.target(*args, **kwargs)]

        try:
            with _mode_of(node, sources):
                traced = make_fx(run)(*map(_value, sources))
        except Exception:  # of any kind: torch says what its composition lacks
            log.debug("%s stays whole", node.target, exc_info=True)
            return self._keep(node)
        for inner in traced.graph.nodes:  # torch changes in place only what it has made itself
            if isinstance(inner.target, torch._ops.OpOverload) and inner.target._schema.is_mutable:
                inner.target = _out_of_place(inner.target)
        before = node.prev
        (made,) = self._inlined(node, traced, sources)
        node.replace_all_uses_with(made)
        self.done.append(node)
        composed = []
        while (before := before.next) is not node:
            composed.append(before)
        for inner in composed:
            self.visit(inner)

    def _inlined(self, node, traced, sources):
        """Copies a trace in front of the node. Gives the nodes of its results."""
        env, inputs, constants = {}, iter(sources), {}

        def made(inner):
            if inner not in env and constants[inner].numel() == 1:  # a number of the rule, which is no tensor of the model
                value = constants[inner]
                args, kwargs = (list(value.shape), value.item()), {"dtype": value.dtype, "device": value.device}
                with self.graph.inserting_before(node), _mode_of(node, sources):
                    env[inner] = self.graph.call_function(_aten.full.default, args, kwargs)
                    env[inner].meta = {**plain, "val": _aten.full.default(*args, **kwargs)}
            elif inner not in env:
                with self.graph.inserting_before(node):
                    name = f"_complex_constant_{sum(hasattr(self.gm, f'_complex_constant_{i}') for i in range(1000))}"
                    self.gm.register_buffer(name, constants[inner], persistent=False)
                    env[inner] = self.graph.get_attr(name)
                    env[inner].meta = {**plain, "val": _value(inner)}
            return env[inner]

        plain = {k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")}
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                env[inner] = next(inputs)
            elif inner.op == "output":
                return [made(n) if isinstance(n, torch.fx.Node) else n for n in inner.args[0]]
            elif inner.op == "get_attr":
                constants[inner] = getattr(traced, inner.target)
            elif inner.all_input_nodes and constants.keys() >= set(inner.all_input_nodes):
                constants[inner] = inner.target(*torch.fx.node.map_arg(inner.args, constants.get), **torch.fx.node.map_arg(inner.kwargs, constants.get))
            elif inner.target is _aten.detach.default:
                env[inner] = made(inner.args[0])
            else:
                read = {n: made(n) for n in inner.all_input_nodes}
                with self.graph.inserting_before(node):
                    env[inner] = self.graph.node_copy(inner, read.get)
                if inner.target is _aten._neg_view.default:  # torch 2.11's part of a conjugate
                    env[inner].target = _aten.neg.default
                env[inner].meta = {**plain, "val": _value(inner)}


def _value(node):
    return node.meta.get("val") if isinstance(node, torch.fx.Node) else node


def _results(graph):
    return graph.output_node().args[0]


def _is_composed_transform(node) -> bool:
    """Whether torch composes the operator of Fourier transforms and others, so that it has complex values inside."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.name().startswith(_COMPOSED) and target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)


def _lacks_rule(graph) -> bool:
    """Whether a trace still computes complex values, other than of its constants."""
    constants = set()
    for node in graph.nodes:
        if node.op == "get_attr" or node.all_input_nodes and constants.issuperset(node.all_input_nodes):
            constants.add(node)
        elif any(map(_is_complex, pytree.tree_leaves(_value(node)))):
            return True
    return False


def _out_of_place(target):
    """The operator with the same arguments that writes nothing."""
    packet, kinds = getattr(_aten, target.overloadpacket.__name__.removesuffix("_")), [str(a.type) for a in target._schema.arguments]
    overloads = (getattr(packet, name) for name in packet.overloads())
    return next(other for other in overloads if not other._schema.is_mutable and [str(a.type) for a in other._schema.arguments] == kinds)


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
    """The operator on ComplexTensors."""
    rule = _rule(target, args)
    if rule is not None:
        return rule(*args, **kwargs)
    with _Wrapping():
        return target(*args, **kwargs)


def _rule(target, args):
    """ingot's own rule for an operator on these arguments, if it has one."""
    from torch._subclasses.complex_tensor import ComplexTensor

    packet = target.overloadpacket
    return _MAKERS.get(packet) or (_OWN if any(isinstance(a, ComplexTensor) for a in args) else _CREATORS).get(packet)


class _Wrapping(TorchDispatchMode):
    """Computes the operators that torch composes another one of. Those with a rule of ingot's have it, and complex values that torch's rules make on their way are ComplexTensors too.
    (torch 2.13 has such a mode, 2.10 and 2.11 have none.)"""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map(self._wrapped, (args, kwargs or {}))
        return pytree.tree_map(self._wrapped, (_rule(function, args) or function)(*args, **kwargs))

    @staticmethod
    def _wrapped(value):
        from torch._subclasses.complex_tensor import ComplexTensor

        return ComplexTensor.from_interleaved(value) if _is_complex(value) and not isinstance(value, ComplexTensor) else value


def _polar(length, angle):
    return _tensor(length * torch.cos(angle), length * torch.sin(angle))


def _viewed(x):
    return _tensor(x.select(-1, 0), x.select(-1, 1))


def _view_of_real(x, form):
    """view(dtype) of real numbers as complex ones; other views are themselves."""
    if not (isinstance(form, torch.dtype) and form.is_complex):
        return _aten.view(x, form)
    return _viewed((x if x.dtype is form.to_real() else x.view(form.to_real())).unflatten(-1, (-1, 2)))


def _view_of_pair(z, form):
    """view(dtype) of complex numbers as real ones, and views of another shape."""
    if not isinstance(form, torch.dtype):
        return _tensor(z.re.view(form), z.im.view(form))
    if form.is_complex:
        if form is not z.dtype:
            raise NotImplementedError(f"a view of {z.dtype} as {form}")
        return z
    parts = torch.stack((z.re, z.im), -1).flatten(-2)
    return parts if parts.dtype is form else parts.view(form)


def _of_real(x, dims, normalization, onesided):
    return _tensor(*fourier.of_real(x, dims, normalization, onesided))


def _of_pair(z, dims, normalization, forward):
    return _tensor(*fourier.of_pair(z.re, z.im, dims, normalization, forward))


def _to_real(z, dims, normalization, length):
    return fourier.to_real(z.re, z.im, dims, normalization, length)


def _created(target):
    """The rule of an operator that makes a tensor of sizes, numbers and real tensors."""

    def rule(*args, dtype=None, **options):
        if dtype is None and not any(isinstance(a, complex) for a in args) or dtype is not None and not dtype.is_complex:
            return target(*args, dtype=dtype, **options)
        real = torch.get_default_dtype() if dtype is None else dtype.to_real()
        re = target(*(a.real if isinstance(a, complex) else a for a in args), dtype=real, **options)
        im = torch.full_like(re, next((a.imag for a in args if isinstance(a, complex)), 0))
        return _tensor(re, im)

    return rule


# Of real numbers.
_MAKERS = {
    _aten.complex: lambda re, im: _tensor(re, im),
    _aten.polar: _polar,
    _aten.view_as_complex: _viewed,
    _aten._fft_r2c: _of_real,
    _prims.fft_r2c: lambda x, *, dim, onesided: _of_real(x, dim, 0, onesided),
}
_CREATORS = {packet: _created(packet) for packet in (_aten.zeros, _aten.ones, _aten.full, _aten.new_zeros, _aten.new_ones, _aten.new_full, _aten._to_copy)} | {_aten.view: _view_of_real}


def _logarithm(base):
    def rule(x):
        made = _aten.log.default(x)
        scale = 1 / torch.log(torch.tensor(base, dtype=torch.float64)).item()
        return _tensor(made.re * scale, made.im * scale)

    return rule


def _on_each(target):
    """The rule of an operator that only moves elements."""

    def parts(x, args, kwargs, part):
        args = [_parts_of(a)[part] if _is_complex(a) else a for a in args]
        return target(_parts_of(x)[part], *args, **kwargs)

    return lambda x, *args, **kwargs: _tensor(*(parts(x, args, kwargs, part) for part in (0, 1)))


def _parts_of(x):
    """The parts of a value that may be real."""
    if hasattr(x, "re"):
        return x.re, x.im
    return (x, 0) if isinstance(x, torch.Tensor) else (complex(x).real, complex(x).imag)


def _multiplied(x, y):
    """A product. A real factor is one for each part, and a number no tensor."""
    (a, b), (c, d) = _parts_of(x), _parts_of(y)
    if not isinstance(b, torch.Tensor) and b == 0:
        (a, b), (c, d) = (c, d), (a, b)
    if not isinstance(d, torch.Tensor) and d == 0:
        return _tensor(a * c, b * c)
    return _tensor(a * c - b * d, a * d + b * c)


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
    kind = None if dtype is None else dtype.to_real()
    return _tensor(torch.full_like(x.re, complex(value).real, dtype=kind), torch.full_like(x.im, complex(value).imag, dtype=kind))


# Where torch has no rule, or one with other results.
_OWN = {
    _aten.mul: _multiplied,
    _aten.div: _divided,
    _aten.true_divide: _divided,
    _aten.reciprocal: lambda x: _divided(1, x),
    _aten.pow: _power,
    _aten.log2: _logarithm(2.0),
    _aten.log10: _logarithm(10.0),
    _aten.full_like: _filled,
    _aten.ones_like: lambda x, **options: _filled(x, 1, **options),
    _aten.zeros_like: lambda x, **options: _filled(x, 0, **options),
    _aten.view: _view_of_pair,
    _aten._fft_c2c: _of_pair,
    _aten._fft_c2r: _to_real,
    _prims.fft_c2c: lambda z, *, dim, forward: _of_pair(z, dim, 0, forward),
    _prims.fft_c2r: lambda z, *, dim, last_dim_size: _to_real(z, dim, 0, last_dim_size),
} | {packet: _on_each(packet) for packet in (_aten.roll, _aten.take, _aten.tril, _aten.triu, _aten.diag_embed, _aten.unfold, _aten.lift_fresh_copy, _aten.slice_scatter, _aten.select_scatter)}
