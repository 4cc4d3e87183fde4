"""`torch_tensorrt.kernels`: operators made of CUDA C++ or PTX. An operator is defined for torch, and ingot calls its kernel inside engines (ingot.register_kernel).

A kernel takes pointers to its tensors, its scalars (int, float, bool), the extras (int), and pointers to its results, in this order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ..capture import external
from ..errors import InputError
from ._errors import refusal

_AOT_FN = "it builds its launch of TensorRT's classes", "grid=, a function of the operator's arguments that returns an ingot.Launch"


@dataclass(frozen=True)
class SameAs:
    """A result with the shape of a tensor, which is given by its name or its place among the tensors."""

    input_idx: int | str = 0


@dataclass(frozen=True)
class ReduceDims:
    """A result with the shape of a tensor without these axes, or with size 1 there."""

    input_idx: int | str
    dims: tuple[int, ...]
    keepdim: bool = False


@dataclass(frozen=True)
class Numel:
    """An extra: the number of elements of a tensor."""

    input_name: str


@dataclass(frozen=True)
class DimSize:
    """An extra: a size of a tensor."""

    input_name: str
    axis: int


@dataclass(frozen=True)
class Elementwise:
    """A thread for each element of the first result. "nd": block[0] along its last axis, block[1] along the one before, and so on; leading axes are blocks along z."""

    block: tuple[int, ...] = (256,)
    layout: str = "flat"


@dataclass(frozen=True)
class Reduction:
    """A block for each element of the first result."""

    reduce_dims: tuple[int, ...]
    block_size: int = 256


@dataclass(frozen=True)
class Custom:
    """A launch that TensorRT's classes describe. Refused when it is used."""

    fn: Callable


@dataclass(frozen=True)
class InputDecl:
    """A tensor."""

    name: str
    dtype: torch.dtype | None = None


@dataclass(frozen=True)
class ScalarInput:
    """A float, int or bool."""

    name: str
    py_type: type


@dataclass(frozen=True)
class OutputDecl:
    """A result: its shape, and the tensor that gives its dtype (default: the tensor that gives its shape)."""

    name: str
    shape: SameAs | ReduceDims
    dtype_from: str | None = None


@dataclass
class KernelSpec:
    """A kernel and its parameters. include_paths and arch_override are accepted: ingot finds CUDA's headers itself (docs/own_kernels.md), and the target is the model's."""

    kernel_source: str
    kernel_name: str
    inputs: Sequence[InputDecl | ScalarInput] | None = None
    outputs: Sequence[OutputDecl] | None = None
    extras: Sequence[Numel | DimSize] = ()
    geometry: Elementwise | Reduction | Custom | None = None
    include_paths: list[str] | None = None
    compile_std: str = "c++17"
    arch_override: str | None = None


def cuda_kernel_op(op_name: str, spec: KernelSpec, *, meta_fn=None, eager_fn=None, aot_fn=None, schema=None, grid=None, supports_dynamic_shapes=True, requires_output_allocator=False,
                   priority=None, capability_validator=None):  # fmt: skip
    """Defines the operator "namespace::name" of a KernelSpec and gives it its kernel. Returns the operator.

    meta_fn: its fake kernel. Default: made from spec.outputs.
    eager_fn: runs it outside of engines. Default: an engine with only this operator.
    schema: such as "(Tensor x, float alpha) -> Tensor". Default: made from spec, or from meta_fn's annotations.
    grid: as for ingot.register_kernel. Default: made from spec.geometry and spec.extras.
    aot_fn: refused without grid, because it builds its launch from TensorRT's classes.

    Other arguments are accepted and have no effect. Raises InputError, UnsupportedError.
    """
    if schema is None and spec.inputs is not None and (spec.outputs is not None or meta_fn is None):
        schema = _schema(op_name, spec)
    if meta_fn is None:
        _needs(op_name, spec, "outputs", "meta_fn")
        meta_fn = _meta(op_name, spec)
    if grid is None:
        if aot_fn is not None or isinstance(spec.geometry, Custom):
            raise refusal("kernels.cuda_kernel_op(aot_fn=)", *_AOT_FN)
        _needs(op_name, spec, "geometry", "grid")
        grid = _grid(op_name, spec, meta_fn)
    return _defined(op_name, schema, meta_fn, eager_fn, grid, cuda=(spec.kernel_source, spec.kernel_name))


def ptx_op(op_name: str, ptx, kernel_name: str, meta_fn, eager_fn=None, aot_fn=None, *, schema=None, grid=None, supports_dynamic_shapes=True, requires_output_allocator=False, priority=None,
           capability_validator=None):  # fmt: skip
    """`cuda_kernel_op` for PTX (text or bytes). It needs a fake kernel and a grid."""
    if grid is None:
        raise refusal("kernels.ptx_op(aot_fn=)", *_AOT_FN)
    text = ptx.decode().rstrip("\0") if isinstance(ptx, (bytes, bytearray)) else os.fspath(ptx)
    return _defined(op_name, schema, meta_fn, eager_fn, grid, ptx=(text, kernel_name))


def _needs(op_name, spec, field, instead):
    if spec.inputs is None or getattr(spec, field) is None:
        raise InputError(f"the KernelSpec of {op_name} has no {field if spec.inputs is not None else 'inputs'}", remedy=f"give them, or {instead}=")


def _schema(op_name: str, spec: KernelSpec) -> str:
    words = {float: "float", int: "int", bool: "bool"}
    for i in spec.inputs:
        if isinstance(i, ScalarInput) and i.py_type not in words:
            raise InputError(f"scalar {i.name!r} of {op_name} is {i.py_type!r}, and float, int or bool is needed")
    if not any(isinstance(i, InputDecl) for i in spec.inputs):
        raise InputError(f"{op_name} takes no tensor")
    takes = ", ".join(f"Tensor {i.name}" if isinstance(i, InputDecl) else f"{words[i.py_type]} {i.name}" for i in spec.inputs)
    count = len(spec.outputs or ("one",))
    return f"({takes}) -> " + ("Tensor" if count == 1 else "(" + ", ".join(["Tensor"] * count) + ")")


def _tensors(spec: KernelSpec, arguments) -> dict:
    return {i.name: a for i, a in zip(spec.inputs, arguments) if isinstance(i, InputDecl)}


def _named(op_name, tensors: dict, which):
    found = list(tensors.values())[which] if isinstance(which, int) and which < len(tensors) else tensors.get(which)
    if found is None:
        raise InputError(f"{op_name} has no tensor {which!r}", remedy=f"its tensors are {', '.join(tensors)}")
    return found


def _shape(op_name, tensors, relation) -> list:
    of = _named(op_name, tensors, relation.input_idx)
    if isinstance(relation, SameAs):
        return list(of.shape)
    gone = {d % len(of.shape) for d in relation.dims}
    return [1 if axis in gone else size for axis, size in enumerate(of.shape) if relation.keepdim or axis not in gone]


def _meta(op_name, spec):
    def meta(*arguments):
        tensors = _tensors(spec, arguments)
        made = []
        for o in spec.outputs:
            like = _named(op_name, tensors, o.dtype_from if o.dtype_from is not None else o.shape.input_idx)
            made.append(torch.empty(_shape(op_name, tensors, o.shape), dtype=like.dtype, device=like.device))
        return made[0] if len(made) == 1 else tuple(made)

    return meta


def _blocks(op_name, shape, geometry):
    """The grid over a result's shape, and the block."""
    count = 1
    for size in shape:
        count = count * size
    if isinstance(geometry, Reduction):
        return count, geometry.block_size
    block = tuple(geometry.block)
    if geometry.layout == "flat":
        return (count + block[0] - 1) // block[0], block[0]
    if geometry.layout != "nd" or len(block) > len(shape) or (len(block) == 3 and len(shape) > 3):
        raise InputError(f"Elementwise(block={block}, layout={geometry.layout!r}) does not fit a result of {len(shape)} axes of {op_name}")
    grid = [(size + b - 1) // b for size, b in zip(reversed(shape), block)] + [1] * (3 - len(block))
    for size in shape[: len(shape) - len(block)]:
        grid[2] = grid[2] * size
    return tuple(grid), block


def _grid(op_name, spec, meta_fn):
    def grid(*arguments):
        tensors = _tensors(spec, arguments)
        if spec.outputs is None:
            raise InputError(f"the KernelSpec of {op_name} has no outputs for its geometry", remedy="give them, or grid=")
        blocks, block = _blocks(op_name, _shape(op_name, tensors, spec.outputs[0].shape), spec.geometry)
        extras = [_named(op_name, tensors, e.input_name).numel() if isinstance(e, Numel) else _named(op_name, tensors, e.input_name).shape[e.axis] for e in spec.extras]
        return external.Launch(blocks, block, sizes=tuple(extras), number_bytes=4)

    return grid


def _defined(op_name: str, schema, meta_fn, eager_fn, grid, **code):
    namespace, _, name = op_name.partition("::")
    if not namespace or not name:
        raise InputError(f"{op_name!r} is not a name of an operator", remedy='"namespace::name"')
    torch.library.define(op_name, schema if schema is not None else torch.library.infer_schema(meta_fn, mutates_args=()))
    torch.library.register_fake(op_name, meta_fn)
    torch.library.impl(op_name, "cuda", eager_fn if eager_fn is not None else _in_an_engine(op_name))
    external.register_kernel(op_name, grid=grid, **code)
    return getattr(getattr(torch.ops, namespace), name)


def _in_an_engine(op_name):
    """Runs the operator on GPU tensors, by an engine with only this operator for each kind of arguments."""
    engines = {}

    def run(*arguments):
        from ..ahead_of_time import compile

        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        key = tuple((a.shape, a.dtype, a.device) if isinstance(a, torch.Tensor) else (type(a), a) for a in arguments)
        if key not in engines:
            engines[key] = compile(_Alone(op_name, arguments), inputs=tensors, fallback="error")
        return engines[key](*tensors)

    return run


class _Alone(torch.nn.Module):
    def __init__(self, op_name, arguments):
        super().__init__()
        namespace, _, name = op_name.partition("::")
        self.op = getattr(getattr(torch.ops, namespace), name)
        self.arguments = [None if isinstance(a, torch.Tensor) else a for a in arguments]

    def forward(self, *tensors):
        given = iter(tensors)
        return self.op(*(next(given) if a is None else a for a in self.arguments))
