"""Calls of every operator definition with two or more operands, by torch's schemas: all pairs of dtypes, and of numbers, 0-d tensors and tensors with axes.

Values are chosen so that the sum or product of two of them overflows the narrow types."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass

import torch

DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)
VALUES = {
    torch.bool: (1, 0, 1, 1, 0, 1),
    torch.uint8: (200, 3, 100, 255, 7, 1),
    torch.int8: (100, -3, 127, -128, 7, 1),
    torch.int16: (30000, -3, 32767, -181, 7, 1),
    torch.int32: (2000000000, -3, 2147483647, -46341, 7, 1),
    torch.int64: (2**40 + 1, -3, 5, -46341, 7, 1),
}
FLOATS = (300.0, -2.25, 100.75, 0.1, -7.0, 3.0)
NUMBERS = (True, 3, 2.5)

# An operand: its shape, and its role. Operator definitions that are not listed are pointwise, on (2, 3).
ELEMENTS = (2, 3)


@dataclass
class Index:
    shape: tuple


@dataclass
class Mask:
    shape: tuple


@dataclass
class Positive:
    shape: tuple


@dataclass
class Part:
    """Between 0 and 1."""

    shape: tuple


@dataclass
class Order:
    """The places of one axis, first to last."""

    shape: tuple


I2, M = Index((2,)), Mask((2, 3))
NORM = {"input": (2, 4, 3), "weight": (4,), "bias": (4,), "running_mean": (4,), "running_var": Positive((4,))}
ROW_NORM = {"input": (2, 3), "weight": (3,), "bias": (3,), "normalized_shape": [3]}
HEADS = {name: (1, 2, 4, 8) for name in ("query", "key", "value")} | {"attn_mask": (4, 4)}


def conv(n, transposed=False):
    return {"input": (1, 2) + (5,) * n, "weight": ((2, 3) if transposed else (3, 2)) + (2,) * n, "bias": (3,)}


STRUCTURED: dict[str, dict] = {
    "mm": {"self": (2, 3), "mat2": (3, 2)},
    "bmm": {"self": (2, 2, 3), "mat2": (2, 3, 2)},
    "matmul": {"self": (2, 3), "other": (3, 2)},
    "mv": {"self": (2, 3), "vec": (3,)},
    "dot": {"self": (3,), "tensor": (3,)},
    "vdot": {"self": (3,), "other": (3,)},
    "outer": {"self": (2,), "vec2": (3,)},
    "linear": {"input": (2, 3), "weight": (4, 3), "bias": (4,)},
    "addmm": {"self": (2, 2), "mat1": (2, 3), "mat2": (3, 2)},
    "addbmm": {"self": (2, 2), "batch1": (2, 2, 3), "batch2": (2, 3, 2)},
    "baddbmm": {"self": (2, 2, 2), "batch1": (2, 2, 3), "batch2": (2, 3, 2)},
    "addmv": {"self": (2,), "mat": (2, 3), "vec": (3,)},
    "addr": {"self": (2, 3), "vec1": (2,), "vec2": (3,)},
    "einsum": {"equation": "ij,jk->ik", "tensors": [(2, 3), (3, 2)]},
    "scaled_dot_product_attention": HEADS,
    "_scaled_dot_product_flash_attention_for_cpu": HEADS,
    "conv1d": conv(1),
    "conv2d": conv(2),
    "conv3d": conv(3),
    "conv_transpose1d": conv(1, True),
    "conv_transpose2d": conv(2, True),
    "conv_transpose3d": conv(3, True),
    "convolution": conv(1) | {"stride": [1], "padding": [0], "dilation": [1], "transposed": False, "output_padding": [0], "groups": 1},
    "layer_norm": ROW_NORM,
    "native_layer_norm": ROW_NORM | {"eps": 1e-5},
    "rms_norm": ROW_NORM,
    "group_norm": NORM | {"num_groups": 2},
    "native_group_norm": NORM | {"N": 2, "C": 4, "HxW": 3, "group": 2, "eps": 1e-5},
    "batch_norm": NORM | {"training": False, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": False},
    "_native_batch_norm_legit_no_training": NORM | {"momentum": 0.1, "eps": 1e-5},
    "_native_batch_norm_legit_functional": NORM | {"training": False, "momentum": 0.1, "eps": 1e-5},
    "instance_norm": NORM | {"use_input_stats": False, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": False},
    "prelu": {"self": (2, 3), "weight": (3,)},
    "embedding": {"weight": (4, 3), "indices": I2},
    "index": {"self": (2, 3), "indices": [I2]},
    "_unsafe_index": {"self": (2, 3), "indices": [I2]},
    "index_put": {"self": (2, 3), "indices": [I2], "values": (2, 3)},
    "index_select": {"self": (2, 3), "dim": 0, "index": I2},
    "index_add": {"self": (2, 3), "dim": 0, "index": I2, "source": (2, 3)},
    "index_copy": {"self": (2, 3), "dim": 0, "index": I2, "source": (2, 3)},
    "index_fill": {"self": (2, 3), "dim": 0, "index": I2, "value": Positive(())},
    "gather": {"self": (2, 3), "dim": 0, "index": Index((2, 3))},
    "take": {"self": (2, 3), "index": I2},
    "take_along_dim": {"self": (2, 3), "indices": Index((2, 3)), "dim": 0},
    "scatter": {"self": (2, 3), "dim": 0, "index": Index((2, 3)), "src": (2, 3), "reduce": "add"},
    "scatter_add": {"self": (2, 3), "dim": 0, "index": Index((2, 3)), "src": (2, 3)},
    "masked_fill": {"self": (2, 3), "mask": M, "value": Positive(())},
    "masked_scatter": {"self": (2, 3), "mask": M, "source": (6,)},
    "where": {"condition": M, "self": ELEMENTS, "other": ELEMENTS},
    "quantile": {"self": (2, 3), "q": Part((2,))},
    "nanquantile": {"self": (2, 3), "q": Part((2,))},
    "bucketize": {"self": (2, 3), "boundaries": Positive((3,))},
    "searchsorted": {"sorted_sequence": Positive((3,)), "self": (2, 3), "sorter": Order((3,))},
    "narrow": {"self": (2, 3), "dim": 0, "start": Index(()), "length": 1},
    "cat": {"tensors": [(2, 3), (1, 3)]},
    "concat": {"tensors": [(2, 3), (1, 3)]},
    "stack": {"tensors": [(2, 3), (2, 3)]},
    "diff": {"self": (3,), "prepend": (1,), "append": (1,)},
    "slice_scatter": {"self": (2, 3), "src": (1, 3), "start": 0, "end": 1},
    "select_scatter": {"self": (2, 3), "src": (3,), "dim": 0, "index": 0},
    "diagonal_scatter": {"self": (2, 3), "src": (2,)},
    "linspace": {"start": (), "end": (), "steps": 3},
    "fill": {"self": (2, 3), "value": Positive(())},
    "copy": {"self": (2, 3), "src": (2, 3)},
    "view_as": {"self": (2, 3), "other": (3, 2)},
    "reshape_as": {"self": (2, 3), "other": (3, 2)},
}
# More arguments than torch's defaults.
VARIANTS = {
    "add": [{}, {"alpha": 3}],
    "sub": [{}, {"alpha": 3}],
    "subtract": [{}, {"alpha": 3}],
    "rsub": [{}, {"alpha": 3}],
    "addcmul": [{}, {"value": 2}, {"value": 2.5}],
    "addcdiv": [{}, {"value": 2}, {"value": 2.5}],
    "div": [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}],
    "divide": [{"rounding_mode": "floor"}, {"rounding_mode": "trunc"}],
    "addmm": [{}, {"beta": 2, "alpha": 3}],
    "addr": [{}, {"beta": 2, "alpha": 3}],
}
DIVISIONS = ("div", "divide", "floor_divide", "remainder", "fmod", "true_divide")  # of integers by zero is an error of the call


@dataclass
class Call:
    """One call: the operands among its arguments are tensors or numbers."""

    target: str
    operator: torch._ops.OpOverload
    arguments: dict

    def tensors(self) -> list[torch.Tensor]:
        return [t for a in self.arguments.values() for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]

    def with_tensors(self, new) -> dict:
        new = iter(new)
        swap = lambda a: next(new) if isinstance(a, torch.Tensor) else [swap(x) for x in a] if isinstance(a, list) else a
        return {name: swap(a) for name, a in self.arguments.items()}

    def __call__(self, *tensors) -> list[torch.Tensor]:
        made = self.operator(**self.with_tensors(tensors or self.tensors()))
        return [t for t in (made if isinstance(made, (tuple, list)) else [made]) if isinstance(t, torch.Tensor)]

    def exact(self) -> list[torch.Tensor]:
        """With every float widened to float64, and integers promoting to float64."""
        torch.set_default_dtype(torch.float64)
        try:
            return self(*(t.double() if t.dtype.is_floating_point else t for t in self.tensors()))
        finally:
            torch.set_default_dtype(torch.float32)

    def __str__(self):
        text = lambda a: f"{str(a.dtype)[6:]}{list(a.shape)}" if isinstance(a, torch.Tensor) else "[" + ", ".join(map(text, a)) + "]" if isinstance(a, list) else repr(a)
        return f"{self.target}({', '.join(f'{name}={text(a)}' for name, a in self.arguments.items())})"


def tensor(dtype, shape, turn=0, values=None) -> torch.Tensor:
    values = values or VALUES.get(dtype, FLOATS)
    count = torch.Size(shape).numel()
    return torch.tensor([values[(i + turn) % len(values)] for i in range(count)], dtype=dtype).reshape(shape)


def operand(what, dtype, turn, nonzero):
    if isinstance(what, Index):
        return tensor(dtype, what.shape, values=(1, 1) if dtype is torch.bool else (0, 1))  # a mask that selects all
    if isinstance(what, Mask):
        return tensor(dtype, what.shape, values=(1, 0, 0))
    if isinstance(what, Positive):
        return tensor(dtype, what.shape, values=(1, 3, 100))
    if isinstance(what, Part):
        return tensor(dtype, what.shape, values=(0.25, 0.75))
    if isinstance(what, Order):
        return tensor(dtype, what.shape, values=range(what.shape[0]))
    return tensor(dtype, what, turn, (1,) if nonzero and dtype is torch.bool else None)


def parts(what) -> list:
    return what if isinstance(what, list) else [what]


def calls(row, most: int) -> list[Call]:
    """At most `most` calls of an operator definition, drawn from all. None if it has fewer than two operands."""
    namespace, name, overload = row["name"].split(".")
    if namespace != "aten":  # a package's own, there once it is imported
        return []
    operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    spec = STRUCTURED.get(name)
    roles, kinds, fixed = [], [], {}
    for p in operator._schema.arguments:
        kind = str(p.type)
        listed = spec is not None and p.name in spec
        if "Tensor" in kind and (spec is None or listed):
            what = spec[p.name] if listed else ELEMENTS
            roles.append((p.name, what, isinstance(what, list)))
            kinds.append("Tensor")
        elif "number" in kind and p.name in ("self", "other", "exponent", "min", "max", "end", "start", "weight", "value") and (p.name != "value" or not p.has_default_value()):
            roles.append((p.name, None, False))
            kinds.append("number")
        elif listed:
            fixed[p.name] = spec[p.name]
    if sum(len(parts(what)) for _, what, _ in roles) < 2:
        return []
    choices = []
    for (_, what, _), kind in zip(roles, kinds):
        for part in parts(what):
            shapes = [part, ()] if part == ELEMENTS and (spec is None or name == "where") else [part]
            of_tensors = [(dtype, shape) for dtype in DTYPES for shape in shapes]
            numbers = [(n, None) for n in NUMBERS]
            choices.append(numbers if kind == "number" else of_tensors + numbers if spec is None else of_tensors)
    known = {a.name for a in operator._schema.arguments}
    variants = [v for v in VARIANTS.get(name, [{}]) if set(v) <= known] or [{}]
    count = math.prod(map(len, choices))
    random_ = random.Random(row["name"])
    drawn = range(count) if count <= most else sorted({random_.randrange(count) for _ in range(most)})  # sample() accepts no counts beyond 2^63
    out = []
    for i in drawn:
        combination, rest = [], i
        for options in choices:
            rest, k = divmod(rest, len(options))
            combination.append(options[k])
        if any(shape is not None for _, shape in combination):
            out.append(_call(row["name"], operator, roles, fixed | variants[i % len(variants)], combination))
    return out


# Arguments without a default beside a single tensor, by their names; by their kinds where the name is not listed.
ARGUMENTS = {"dim": 0, "dims": [0], "size": [3, 2], "k": 1, "n": 1}
KINDS = {"int": 1, "number": 1, "float": 0.5, "bool": False}
RANKS = ((2, 3), (1, 2, 6), (1, 2, 4, 4), (1, 2, 2, 3, 2))  # images of one to three axes are for what names their number


def calls_of_one(row) -> list[Call]:
    """Calls of an operator definition with one tensor, of each dtype. None if it has more, or arguments that are not known here."""
    namespace, name, overload = row["name"].split(".")
    if namespace != "aten":
        return []
    operator = getattr(getattr(torch.ops.aten, name), overload)
    needed = [a for a in operator._schema.arguments if not a.has_default_value()]
    tensors = [a for a in needed if str(a.type) == "Tensor"]
    if len(tensors) != 1 or any("Tensor" in str(a.type) for a in operator._schema.arguments if a is not tensors[0]):
        return []
    out = []
    axes = re.search("([123])d", name)
    for shape in RANKS:
        if axes and int(axes[1]) != len(shape) - 2:
            continue
        windows = {"kernel_size": [1] * (len(shape) - 2), "output_size": [1] * (len(shape) - 2)}
        fixed = {a.name: (ARGUMENTS | windows).get(a.name, KINDS.get(str(a.type))) for a in needed if a is not tensors[0]}
        if None not in fixed.values():
            out += [Call(row["name"], operator, {tensors[0].name: tensor(dtype, shape), **fixed}) for dtype in DTYPES]
    return out


def _call(target, operator, roles, fixed, combination) -> Call:
    rest, arguments, turn = iter(combination), {}, 0
    for name, what, is_list in roles:
        made = []
        for _ in parts(what):
            value, shape = next(rest)
            made.append(value if shape is None else operand(shape, value, turn, target.split(".")[1] in DIVISIONS))
            turn += 1
        arguments[name] = made if is_list else made[0]
    return Call(target, operator, {**arguments, **fixed})
