"""Draws arguments of an operator by its schema: the type of a parameter gives the kind of value, its name a sensible range. If eager refuses them, others are drawn."""

from __future__ import annotations

import math
import random

import fitting
import torch
from random_program import Ref, Size, operator, references
from values import DTYPES, FLOATS, INTEGERS, Source

TEXTS = {
    "rounding_mode": ["floor", "trunc"],
    "approximate": ["none", "tanh"],
    "mode": ["constant", "reflect", "replicate", "circular"],
    "padding": ["valid", "same"],
    "reduce": ["add", "multiply", "sum", "prod", "amax", "amin", "mean"],
    "indexing": ["ij", "xy"],
    "interpolation": ["linear", "lower", "higher", "midpoint", "nearest"],
    "side": ["left", "right"],
    "ord": ["fro", "nuc"],
    "equation": ["ij,jk->ik", "bij,bjk->bik", "ij,kj->ik", "i,j->ij", "ij->ji", "bij->b", "ii->i", "bhqd,bhkd->bhqk", "ij,ij->", "...i,...i->..."],
}
AXES = {"dim", "dim0", "dim1", "dim2", "axis0", "axis1", "start_dim", "end_dim", "dimension", "source", "destination", "dims"}
INDICES = {"index", "indices"}
MASKS = {"mask", "condition", "attn_mask"}
SHAPES = {"size", "shape", "repeats", "sizes"}
SMALL = {"eps": [1e-5, 1e-3], "p": [0.0, 0.5, 1, 2, 3], "q": [0.0, 0.25, 0.3, 0.5, 1.0], "dropout_p": [0.0], "momentum": [0.1, 0.0, 1.0], "atol": [1e-8, 0.5], "rtol": [1e-5, 0.5]}
NUMBERS = [0, 1, 2, 3, -1, -2, 5, 0.5, -0.5, 1.5, 2.0, 0.0, 0.1, 3.7, True, False]
SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 1e30, 1e-40, 1e300, 2**31, -(2**40), 255, 128]


class Arguments:
    """Draws arguments for one call. `scope`: the values so far (grow.py); a draw may add sources to it."""

    def __init__(self, scope, r: random.Random, operator):
        self.scope, self.r, self.operator = scope, r, operator
        self.chosen: dict[str, object] = {}
        self.names = {a.name for a in operator.schema.arguments}

    def draw(self):
        """(args, kwargs)"""
        prepared = self._prepared()
        args, kwargs, positional = [], {}, True
        for parameter in self.operator.schema.arguments:
            name = parameter.name
            if name in ("layout", "device", "pin_memory", "memory_format", "generator") and parameter.has_default_value():
                positional = False
                continue
            given = name in prepared
            if not given and parameter.has_default_value() and self.r.random() < 0.4:
                positional = False
                continue
            value = prepared[name] if given else self.value(parameter)
            self.chosen[name] = value
            if parameter.kwarg_only or not positional:
                kwargs[name] = value
            else:
                args.append(value)
        return args, kwargs

    # ---- by type

    def value(self, parameter):
        kind, name = str(parameter.real_type), parameter.name
        if kind.startswith("Optional["):
            if self.r.random() < 0.35:
                return None
            kind = kind[len("Optional[") : -1]
        if kind == "Tensor":
            return self.tensor(name)
        if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
            return self.tensors(name, "Optional" in kind)
        if kind in ("int", "SymInt"):
            return self.integer(name, kind == "SymInt")
        if kind in ("List[int]", "List[SymInt]"):
            return self.integers(name)
        if kind == "float":
            return float(self.r.choice(SMALL.get(name, NUMBERS[:14])))
        if kind == "List[float]":
            return [self.r.choice([2.0, 1.0, 1.5, 3.0]) for _ in range(max(1, len(self.shape_of_first()) - 2))]
        if kind in ("number", "Scalar"):
            return self.number()
        if kind == "bool":
            return self.r.random() < 0.5
        if kind == "str":
            return self.r.choice(TEXTS[name])
        if kind == "ScalarType":
            return self.r.choice(DTYPES)
        if kind == "Device":
            return torch.device("cpu")
        raise NotImplementedError(f"no way to draw a {kind} for {name} of {self.operator.target}: teach {__name__}")

    def number(self):
        if self.scope.sized and self.r.random() < 0.25:
            return self.size()
        return self.r.choice(SPECIAL if self.scope.special and self.r.random() < 0.5 else NUMBERS)

    def size(self):
        """The size of an axis of some value, or a little arithmetic on it."""
        name = self.r.choice(self.scope.sized)
        axis = self.r.randrange(self.scope.dim(name))
        return Size(name, axis, *self.r.choice([(1, 0), (1, 0), (2, 0), (1, 1), (1, -1), (-1, 0)]))

    def integer(self, name, symbolic):
        rank, r = len(self.shape_of_first()), self.r
        if name in AXES:
            return r.randrange(-max(rank, 1), max(rank, 1))
        if symbolic and self.scope.sized and r.random() < 0.15:
            return self.size()
        extent = self.extent()
        if name in ("start", "index"):
            return r.randint(-extent, max(extent - 1, 0))
        if name == "end":
            return r.choice([2**63 - 1, extent, extent - 1, -1, 1, 2])
        if name in ("length", "k", "split_size", "size"):
            return r.randint(0 if name != "split_size" else 1, max(extent, 1))
        return r.choice([0, 1, 1, 2, 2, 3, 4, -1, -2])

    def extent(self) -> int:
        """The size of the axis that the call is about."""
        shape = self.shape_of_first()
        dim = self.chosen.get("dim", self.chosen.get("dimension", 0))
        return shape[dim] if shape and isinstance(dim, int) and -len(shape) <= dim < len(shape) else 1

    def integers(self, name):
        shape, r = self.shape_of_first(), self.r
        rank = len(shape)
        if name in ("dim", "dims", "source", "destination"):
            if self.operator.row.startswith(("aten.permute", "aten.movedim")) or "dims" == name and r.random() < 0.3:
                axes = r.sample(range(rank), rank if "permute" in self.operator.row else r.randint(0, rank))
                return [a - rank if r.random() < 0.2 else a for a in axes]
            if "source" in self.chosen and isinstance(self.chosen["source"], list):
                return r.sample(range(rank), len(self.chosen["source"]))
            if "shifts" in self.chosen:
                return r.sample(range(rank), min(rank, len(self.chosen["shifts"])))
            if "matrix_norm" in self.operator.row:
                return r.sample(range(rank), min(rank, 2))
            return [a - rank if r.random() < 0.3 else a for a in r.sample(range(rank), r.randint(min(1, rank), rank))]
        if name == "normalized_shape":
            first = next(iter(self.chosen.values()))
            return [self.axis_size(first.name, axis) for axis in range(rank - r.randint(1, max(1, rank)), rank)] if rank else []
        if name in SHAPES:
            return self.shape(name)
        if name == "split_sizes" or name == "split_size":
            extent, parts = self.extent(), []
            while sum(parts) < extent:
                parts.append(r.randint(0 if r.random() < 0.1 else 1, extent - sum(parts)))
            return parts
        if name == "shifts":
            return [r.randint(-3, 3) for _ in range(r.randint(1, max(1, rank)))]
        if name in ("pad", "padding") and "pad" in self.operator.row:
            pairs = {"1d": 1, "2d": 2, "3d": 3}.get(self.operator.row.partition("_pad")[2][:2]) or r.randint(1, max(1, rank))
            return [r.choice([0, 1, 1, 2, -1]) for _ in range(2 * pairs)]
        if name == "output_size":
            return [r.randint(1, 6) for _ in range(max(1, rank - 2))]
        return [r.choice([1, 1, 1, 2, 2, 3] if name != "padding" else [0, 0, 1]) for _ in range(r.choice([1, max(1, rank - 2)]))]

    def axis_size(self, name, axis):
        """The size of an axis as a number, if it is always the same."""
        sizes = {shape[axis] for shape in self.scope.shapes(name)}
        return sizes.pop() if len(sizes) == 1 else Size(name, axis)

    def shape(self, name):
        r, first = self.r, next((v for v in self.chosen.values() if isinstance(v, Ref)), None)
        if first is None or self.operator.row.startswith("aten.new_"):
            if self.scope.sized and r.random() < 0.6:
                other = r.choice(self.scope.sized)
                return [self.axis_size(other, axis) for axis in range(self.scope.dim(other))]
            return [r.randint(0 if r.random() < 0.1 else 1, 4) for _ in range(r.randint(0, 3))]
        rank = self.scope.dim(first.name)
        sizes = [self.axis_size(first.name, axis) for axis in range(rank)]
        row = self.operator.row
        if "expand" in row or "broadcast" in row:
            sizes = [r.randint(2, 4) if n == 1 and r.random() < 0.8 else n if isinstance(n, Size) or r.random() < 0.6 else -1 for n in sizes]
            return [r.randint(1, 3) for _ in range(r.choice([0, 0, 1]))] + [-1 if n == -1 and "broadcast" in row else n for n in sizes]
        if "repeat" in row or "tile" in row:
            return [r.choice([0, 1, 1, 2, 3]) if i == 0 else r.choice([1, 1, 2]) for i in range(rank + r.choice([0, 0, 1]))]
        if name == "sizes":
            extent = self.extent()
            part = r.choice([d for d in range(1, max(extent, 1) + 1) if extent % d == 0])
            return r.choice([[part, -1], [-1, part]])
        return self.reshaped(first.name, sizes)

    def reshaped(self, name, sizes):
        """A new shape: axes merged and split, axes of size 1 added and removed."""
        r = self.r
        out = [n for n in sizes if n != 1 or r.random() < 0.5]
        if r.random() < 0.25:
            return [-1]
        for _ in range(r.randint(1, 3)):
            what = r.random()
            if what < 0.4 and len(out) > 1:
                at = r.randrange(len(out) - 1)
                if all(isinstance(n, int) and n >= 0 for n in out[at : at + 2]):
                    out[at : at + 2] = [out[at] * out[at + 1]]
                elif -1 not in out:
                    out[at : at + 2] = [-1]
            elif what < 0.75 and out:
                at = r.randrange(len(out))
                factors = [d for d in range(2, out[at]) if out[at] % d == 0] if isinstance(out[at], int) and out[at] > 0 else []
                if factors:
                    factor = r.choice(factors)
                    out[at : at + 1] = [factor, out[at] // factor]
            else:
                out.insert(r.randint(0, len(out)), 1)
        if out and -1 not in out and r.random() < 0.3:
            out[r.randrange(len(out))] = -1
        return out

    # ---- tensors

    def shape_of_first(self):
        first = next((v for v in self.chosen.values() if isinstance(v, Ref)), None)
        if first is None:
            first = next((p for v in self.chosen.values() if isinstance(v, list) for p in v if isinstance(p, Ref)), None)
        return self.scope.shapes(first.name)[0] if first is not None else ()

    def tensors(self, name, optional):
        r = self.r
        if name == "indices":  # of index and index_put: one for each axis, some left out
            axes = r.randint(1, max(1, min(3, len(self.shape_of_first()))))
            shape = [r.randint(1, 3) for _ in range(r.choice([1, 1, 2]))]
            if r.random() < 0.15:
                return [self.new(shape=self.symbols_of(self.first().name)[: r.randint(1, 2)], dtype=torch.bool)]
            made = [None if optional and i + 1 < axes and r.random() < 0.3 else self.indices(i, shape) for i in range(axes)]
            return made
        if name == "tensors" and "equation" in self.chosen:
            letters: dict[str, int] = {}
            terms = self.chosen["equation"].partition("->")[0].replace("...", "z").split(",")
            return [self.new(shape=[letters.setdefault(c, r.choice([1, 2, 3, 4, 5])) for c in term], dtype=self.common()) for term in terms]
        first = self.tensor("self")
        self.chosen[name] = first
        parts = [first]
        for _ in range(r.randint(0, 3)):
            how = r.random()
            alike = [v for v in self.scope.names if self.scope.shapes(v) == self.scope.shapes(first.name)]
            if how < 0.5 and alike:
                parts.append(Ref(r.choice(alike)))
            else:
                shape = list(self.symbols_of(first.name))
                if shape and how > 0.7 and None not in shape:
                    shape[r.randrange(len(shape))] = r.randint(0, 4)
                parts.append(self.new(shape=shape, dtype=self.common() if how < 0.9 else None))
        r.shuffle(parts)
        return parts

    def first(self):
        return next(v for v in self.chosen.values() if isinstance(v, Ref))

    def common(self):
        """The first operand's dtype, most of the time."""
        first = next((v for v in self.chosen.values() if isinstance(v, Ref)), None)
        if first is None:
            return self.r.choice(FLOATS) if self.r.random() < 0.8 else self.r.choice(INTEGERS)
        return self.scope.dtype(first.name)

    def symbols_of(self, name):
        """A shape for a source, with names for varying sizes; None if no source can have the size."""
        return self.scope.symbols(name)

    def indices(self, axis, shape):
        lowest = min((s[axis] for s in self.scope.shapes(self.first().name) if axis < len(s)), default=1)
        needs_each_once = self.operator.kind != "pure" or any(w in self.operator.row for w in ("put", "scatter", "copy", "fill"))
        kind = "permuted" if needs_each_once and self.r.random() < 0.7 else "index"
        if kind == "permuted" and all(isinstance(n, int) for n in shape) and math.prod(shape) > lowest:
            shape = [min(lowest, n) if i == 0 else 1 for i, n in enumerate(shape)]
        dtype = torch.int32 if self.r.random() < 0.1 else torch.int64
        return self.new(shape=shape, dtype=dtype, values=kind, high=lowest)

    def tensor(self, name):
        r, scope = self.r, self.scope
        first = next((v for v in self.chosen.values() if isinstance(v, Ref)), None)
        if name in INDICES and first is not None:
            shape = self.symbols_of(first.name)
            dim = self.chosen.get("dim")
            axis = dim if isinstance(dim, int) else 0
            same = "dim" in self.names and self.operator.row.split(".")[1].startswith(("gather", "scatter", "take")) and None not in shape
            if same:
                shape = [n if isinstance(n, str) or i != axis % max(1, len(shape)) or r.random() < 0.5 else r.randint(1, max(1, n)) for i, n in enumerate(shape)]
            else:
                shape = [r.randint(1, 4) for _ in range(r.choice([1, 1, 2, 0]))]
                shape = shape[:1] if "dim" in self.names else shape
            return self.indices(axis % max(1, scope.dim(first.name)), shape)
        if name in MASKS and (first is not None or name == "condition"):
            dtype = torch.bool if name != "attn_mask" or r.random() < 0.5 else self.common()
            like = self.broadcast(first.name) if first is not None else [r.randint(1, 4) for _ in range(r.randint(0, 3))]
            found = [v for v in scope.names if scope.dtype(v) == torch.bool]
            return Ref(r.choice(found)) if found and r.random() < 0.5 else self.new(shape=like, dtype=dtype)
        if name in ("boundaries", "sorted_sequence"):
            return self.new(shape=[r.randint(0, 5)], dtype=self.common(), values="count")
        if name == "out":
            return self.out()
        if first is None:
            if scope.names and scope.kinds.chain and r.random() < scope.kinds.chain:
                return Ref(scope.names[-1])
            if scope.names and r.random() < (0.85 if len(scope.sources) > 1 else 0.5):
                recent = scope.names[-3:] if r.random() < 0.6 else scope.names
                return Ref(r.choice(recent))
            return self.new()
        how = r.random()
        if how < 0.3:
            return Ref(r.choice(scope.names))
        if how < 0.4:
            return first
        shape = self.symbols_of(first.name)
        if None in shape:
            return Ref(r.choice(scope.names))
        relation = r.random()
        if relation < 0.3:
            pass
        elif relation < 0.5:
            shape = self.broadcast(first.name)
        elif relation < 0.6:
            shape = []
        elif relation < 0.7:
            shape = shape[-1:]
        elif relation < 0.75:
            shape = shape[1:2]
        elif relation < 0.85 and len(shape) > 1:  # the right operand of a matrix product
            shape = [*shape[:-2], shape[-1], r.randint(1, 5)]
        elif relation < 0.9 and shape:
            shape = [r.randint(1, 5), shape[-1]]
        elif relation < 0.95 and shape:
            shape = [shape[-1], r.randint(1, 5)]
        else:
            shape = [r.randint(1, 4), *shape]
        return self.new(shape=shape, dtype=self.common() if r.random() < 0.6 else None)

    def out(self):
        """A tensor of the result's shape: an existing one, or a new one."""
        call = operator(self.operator.row)
        made = [call(**{k: self.scope.resolved(v, n) for k, v in self.chosen.items()}) for n in range(len(self.scope.sizes))]
        shapes = [tuple(t.shape) for t in made]
        alike = [n for n in self.scope.names if self.scope.shapes(n) == shapes]
        if alike and self.r.random() < 0.6:
            return Ref(self.r.choice(alike))
        shape = self.scope.symbols_of_shapes(shapes)
        if None in shape:
            raise ValueError("no source can have this shape")
        return self.new(shape=shape, dtype=made[0].dtype if self.r.random() < 0.8 else None, roles=("input", "input", "buffer"))

    def broadcast(self, name):
        shape = [1 if self.r.random() < 0.3 else n for n in self.symbols_of(name)]
        shape = [1 if n is None else n for n in shape]
        return shape[self.r.randint(0, len(shape)) :] if self.r.random() < 0.4 else shape

    def new(self, shape=None, dtype=None, values=None, high=1, roles=None) -> Ref:
        if shape is not None and None in shape:
            shape = [1 if n is None else n for n in shape]
        return Ref(self.scope.source(shape, dtype, values, high, roles))

    # ---- arguments that depend on one another

    def _prepared(self) -> dict[str, object]:
        """Arguments of operators whose operands' shapes depend on one another: convolutions, attention, norms."""
        if (made := fitting.operands(self)) is not None:
            return made
        if {"weight", "dilation"} <= self.names:
            return self._convolution()
        if "query" in self.names:
            return self._attention()
        if {"kernel_size", "self"} <= self.names or "im2col" in self.operator.row:
            return self._window()
        if "running_mean" in self.names:
            return self._batch_norm()
        if "group_norm" in self.operator.row:
            return self._group_norm()
        if "scale_factors" in self.names:
            rank = self._rank()
            by_size = self.r.random() < 0.5
            sizes, factors = [self.r.randint(1, 6) for _ in range(rank)], [self.r.choice([1.0, 1.5, 2.0]) for _ in range(rank)]
            return {"input": self._image(rank)[0], "output_size": sizes if by_size else None, "scale_factors": None if by_size else factors}
        if self.operator.row == "aten.mv.default":
            m, k = self.r.randint(1, 5), self.r.randint(1, 5)
            return self._alike({"self": [m, k], "vec": [k]})
        if "batch1" in self.names:
            b, m, k, n = (self.r.randint(1, 4) for _ in range(4))
            out = [b, m, n] if "baddbmm" in self.operator.row else [m, n]
            return self._alike({"self": out, "batch1": [b, m, k], "batch2": [b, k, n]})
        if "mat1" in self.names or "mat" in self.names or "vec1" in self.names:
            m, k, n = (self.r.randint(1, 5) for _ in range(3))
            if "mat1" in self.names:
                return self._alike({"self": self.r.choice([[m, n], [n], [1, n], []]), "mat1": [m, k], "mat2": [k, n]})
            return self._alike({"self": [m], "mat": [m, k], "vec": [k]} if "mat" in self.names else {"self": [m, n], "vec1": [m], "vec2": [n]})
        return {}

    def _alike(self, shapes):
        dtype = self.r.choice(FLOATS) if self.r.random() < 0.8 else self.r.choice(INTEGERS)
        return {name: self.new(shape=shape, dtype=dtype) for name, shape in shapes.items()}

    def _float(self):
        return self.r.choice((torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16))

    def _image(self, rank, channels=None):
        size = [self.r.randint(1, 2), channels or self.r.choice([1, 2, 3, 4]), *(self.r.randint(3, 6) for _ in range(rank))]
        return self.new(shape=size, dtype=self._float(), roles=("input", "input", "buffer")), size

    def _rank(self):
        return next((n for n in (1, 2, 3) if f"{n}d" in self.operator.row), self.r.choice([1, 2]))

    def _convolution(self):
        r, rank, groups = self.r, self._rank(), self.r.choice([1, 1, 2])
        transposed = "transpose" in self.operator.row or "transposed" in self.names and r.random() < 0.3
        image, size = self._image(rank, groups * r.randint(1, 2))
        dtype, kernel, outward = self.scope.dtype(image.name), [r.randint(1, 3) for _ in range(rank)], groups * r.randint(1, 3)
        weight = [size[1], outward // groups, *kernel] if transposed else [outward, size[1] // groups, *kernel]
        made = {"input": image, "weight": self.new(shape=weight, dtype=dtype), "groups": groups}
        made["bias"] = None if r.random() < 0.4 else self.new(shape=[outward], dtype=dtype)
        stride = [r.choice([1, 1, 2]) for _ in range(rank)]
        rest = {"stride": stride, "padding": [r.choice([0, 1]) for _ in range(rank)], "dilation": [r.choice([1, 1, 2]) for _ in range(rank)]}
        rest |= {"output_padding": [0 if s == 1 or not transposed else r.choice([0, 1]) for s in stride], "transposed": transposed}
        if self.operator.row.endswith(".padding"):
            rest |= {"padding": r.choice(["valid", "same"]), "stride": [1] * rank}
        return made | {name: value for name, value in rest.items() if name in self.names}

    def _window(self):
        r, rank = self.r, self._rank() if "im2col" not in self.operator.row else 2
        made = {"self": self._image(rank)[0], "kernel_size": [r.randint(1, 3) for _ in range(rank)]}
        if "im2col" in self.operator.row:
            made |= {"dilation": [1, 1], "padding": [r.choice([0, 1])] * 2, "stride": [r.choice([1, 2])] * 2}
        return made

    def _attention(self):
        r = self.r
        b, h, q, k, d = r.randint(1, 2), r.choice([1, 2, 4]), r.randint(1, 5), r.randint(1, 5), r.choice([1, 2, 4, 8])
        dtype = self._float()
        shared = h if not r.random() < 0.3 or h == 1 or "enable_gqa" not in self.names else h // 2
        made = {"query": self.new(shape=[b, h, q, d], dtype=dtype), "key": self.new(shape=[b, shared, k, d], dtype=dtype)}
        made |= {"value": self.new(shape=[b, shared, k, d], dtype=dtype), "dropout_p": 0.0, "is_causal": r.random() < 0.3}
        made["attn_mask"] = None
        if not made["is_causal"] and r.random() < 0.6:
            made["attn_mask"] = self.new(shape=r.choice([[q, k], [b, 1, q, k], [b, h, q, k]]), dtype=r.choice([torch.bool, dtype]))
        if shared != h:
            made["enable_gqa"] = True
        return made

    def _batch_norm(self):
        image, size = self._image(self.r.choice([0, 1, 2]))
        dtype = self.scope.dtype(image.name)
        made = {"input": image, "running_mean": self.new(shape=size[1:2], dtype=dtype), "running_var": self.new(shape=size[1:2], dtype=dtype, values="positive")}
        for name in ("weight", "bias"):
            made[name] = None if self.r.random() < 0.3 else self.new(shape=size[1:2], dtype=dtype)
        return made

    def _group_norm(self):
        image, size = self._image(self.r.choice([0, 1, 2]), 4)
        dtype = self.scope.dtype(image.name)
        made = {"input": image, "num_groups": self.r.choice([1, 2, 4]), "N": size[0], "C": 4, "HxW": math.prod(size[2:])}
        made["group"] = made["num_groups"]
        for name in ("weight", "bias"):
            made[name] = None if self.r.random() < 0.3 else self.new(shape=[4], dtype=dtype)
        return {name: value for name, value in made.items() if name in self.names}


def of(scope, r, operator):
    """One draw: (args, kwargs). Raises Python's own exceptions if the values at hand do not fit."""
    return Arguments(scope, r, operator).draw()


