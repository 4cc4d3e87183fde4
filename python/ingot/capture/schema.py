"""Sizes, tensors and arguments in the schema of torch.export's archives."""

from __future__ import annotations

import math
import operator

import sympy
import torch

from ..errors import UnsupportedError
from ..torch_internals.programs import DTYPES, LAYOUTS, MEMORY_FORMATS
from ..torch_internals.sizes import functions
from .fixes.size_checks import CONDITION
from .memory import hint

_DTYPE_CODE = {torch.uint32: 34, torch.uint64: 35, **{k: int(v) for k, v in DTYPES.items()}}  # the table of torch 2.11 lacks the first two
_LAYOUT_CODE = {k: int(v) for k, v in LAYOUTS.items()}
_MEMORY_CODE = {k: int(v) for k, v in MEMORY_FORMATS.items()}


class Values:
    """The values of one FX graph. outer: those of the graph that it is a region of; both name the same symbols."""

    def __init__(self, outer: Values | None = None):
        self.tensors: dict[str, dict] = {}
        self.sym_ints: dict[str, dict] = {}
        self.sym_bools: dict[str, dict] = {}
        self.symbols: set[sympy.Symbol] = set() if outer is None else outer.symbols
        self._numbers: dict[sympy.Symbol, sympy.Expr] = {} if outer is None else outer._numbers  # those that may be negative, as the difference of two sizes
        self._texts: dict = {} if outer is None else outer._texts

    def size(self, value):
        if isinstance(value, int):
            return {"as_int": value}
        text = self.expression(value.node.expr)
        if text["hint"] is None and (example := hint(value)) is not None:  # kernels are chosen for it, and it is in the range that torch's checks leave
            text["hint"] = {"as_int": example}
        return {"as_expr": text}

    def expression(self, expr):
        text = self._texts.get(expr)
        if text is None:
            made = expr.xreplace(self._numbers).replace(sympy.Abs, lambda e: functions.Max(e, -e))
            self.symbols |= made.free_symbols
            text = self._texts[expr] = {"expr_str": sympy.srepr(made), "hint": None}
        return text

    def tensor(self, name: str, meta: torch.Tensor):
        if name not in self.tensors:
            if (reason := torch_only(name, meta)) is not None:
                self.tensors[name] = {"torch_only": reason}
                return {"name": name}
            self.tensors[name] = {
                "dtype": _DTYPE_CODE[meta.dtype],
                "sizes": [self.size(s) for s in meta.shape],
                "requires_grad": False,
                "device": {"type": meta.device.type, "index": meta.device.index},
                "strides": [self.size(s) for s in meta.stride()],
                "storage_offset": {"as_int": 0},
                "layout": _LAYOUT_CODE[meta.layout],
            }
        return {"name": name}

    def number(self, name: str, symbol: sympy.Symbol, negative: bool, device: torch.device):
        """A tensor of no elements whose sizes say what the number is: [n, 0]; [max(n, 0), max(-n, 0), 0] where it may be negative."""
        sizes = [symbol]
        if negative:
            sizes = [sympy.Symbol(f"{symbol}_{sign}", integer=True, nonnegative=True) for sign in ("above", "below")]
            self._numbers[symbol] = sizes[0] - sizes[1]
        self.tensors[name] = {
            "dtype": _DTYPE_CODE[torch.uint8], "sizes": [*({"as_expr": self.expression(s)} for s in sizes), {"as_int": 0}], "requires_grad": False,
            "device": {"type": device.type, "index": device.index}, "strides": [{"as_int": 1}] * (len(sizes) + 1), "storage_offset": {"as_int": 0}, "layout": _LAYOUT_CODE[torch.strided],
        }  # fmt: skip
        return {"name": name}

    def sym_int(self, name: str, value):
        if name not in self.sym_ints:
            self.sym_ints[name] = self.size(value)
        return {"as_name": name}

    def argument(self, value):
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.fx.Node):
            meta = value.meta.get("val")
            if isinstance(meta, torch.Tensor):
                return {"as_tensor": self.tensor(same_part(value).name, meta)}
            if isinstance(meta, (torch.SymInt, int)) and not isinstance(meta, bool):
                return {"as_sym_int": self.sym_int(value.name, meta)}
            if isinstance(meta, torch.SymBool):
                self.sym_bools[value.name] = {"as_expr": self.expression(value.meta.get(CONDITION, meta.node.expr))}
                return {"as_sym_bool": {"as_name": value.name}}
            raise UnsupportedError(f"value {value.name} of type {type(meta).__name__} is not supported as an argument")
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": _float(value)}
        if isinstance(value, complex):
            return {"as_complex": {"real": _float(value.real), "imag": _float(value.imag)}}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, torch.SymInt):
            name = f"_sym_{len(self.sym_ints)}"
            return {"as_sym_int": self.sym_int(name, value)}
        if isinstance(value, torch.dtype):
            return {"as_scalar_type": _DTYPE_CODE[value]}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, torch.layout):
            return {"as_layout": _LAYOUT_CODE[value]}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": _MEMORY_CODE[value]}
        if isinstance(value, (list, tuple)):
            return self._list(value)
        raise UnsupportedError(f"an argument of type {type(value).__name__} is not supported: {value!r}")

    def _list(self, values):
        parts = [self.argument(v) for v in values]
        kinds = {next(iter(p)) for p in parts}
        if kinds <= {"as_tensor"} and parts:
            return {"as_tensors": [p["as_tensor"] for p in parts]}
        if kinds <= {"as_tensor", "as_none"} and parts:
            return {"as_optional_tensors": [p if "as_tensor" in p else {"as_none": True} for p in parts]}
        if kinds <= {"as_int"}:
            return {"as_ints": [p["as_int"] for p in parts]}
        if kinds <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [p["as_sym_int"] if "as_sym_int" in p else {"as_int": p["as_int"]} for p in parts]}
        if kinds <= {"as_bool"}:
            return {"as_bools": [p["as_bool"] for p in parts]}
        if kinds <= {"as_float", "as_int"}:
            return {"as_floats": [p.get("as_float", p.get("as_int")) for p in parts]}
        if kinds <= {"as_string"}:
            return {"as_strings": [p["as_string"] for p in parts]}
        raise UnsupportedError(f"a list argument of mixed kinds {sorted(kinds)} is not supported")

    def sizes(self, values) -> dict:
        """A size or a list of sizes: ints and sympy expressions."""
        if isinstance(values, list):
            return {"as_sym_ints": [self.sizes(v)["as_sym_int"] for v in values]}
        if isinstance(values, int):
            return {"as_sym_int": {"as_int": values}}
        name = f"_sym_{len(self.sym_ints)}"
        self.sym_ints[name] = {"as_expr": self.expression(values)}
        return {"as_sym_int": {"as_name": name}}


def torch_only(name: str, tensor: torch.Tensor) -> str | None:
    """The reason why a tensor has no form in the schema, so that its readers run in torch; None if it has one."""
    if tensor.layout is not torch.strided:
        return f"{name} has layout {str(tensor.layout).removeprefix('torch.')}; engines take strided tensors"
    if tensor.dtype not in _DTYPE_CODE:
        return f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, which is not supported"
    return None


def same_part(node: torch.fx.Node) -> torch.fx.Node:
    """The first node that takes this part of a list, which names the part."""
    if node.target is not operator.getitem:
        return node
    return next(user for user in node.args[0].users if user.target is operator.getitem and user.args[1] == node.args[1])


def _float(value: float):
    if value != value:
        return "NaN" if math.copysign(1, value) > 0 else "-NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value
