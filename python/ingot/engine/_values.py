"""Tensors and arrays as the C library takes them: their layout, and the structs that point at them. Needs neither torch nor numpy to load."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p

from ..errors import DeviceError, InputError

# In the order of ingot_dtype.
_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
# Types that plans hold as others: unsigned integers as signed ones with the same bits.
SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("rank", c_int32), ("dims", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class WeightSource(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t), ("strides", POINTER(c_int64))]


def dtype_number(dtype) -> int:
    """The ingot_dtype of a dtype of torch."""
    return _DTYPES.index(name_of(dtype))


def by_name(weights):
    """Raises InputError if `weights` is not a state dict."""
    if not isinstance(weights, Mapping):
        raise InputError(f"weights are given by name, and this is of type {type(weights).__name__}", remedy="give model.state_dict()")


def name_of(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def held_otherwise(dtype) -> bool:
    """Whether plans hold tensors of a type as tensors of another one."""
    return name_of(dtype) in SIGNED or name_of(dtype).startswith("complex")


def held(value):
    """A tensor or array as plans have it: complex numbers as real ones with one more axis for the two parts, uint16 to uint64 as signed integers. Others as they are."""
    signed = SIGNED.get(name_of(value.dtype))
    if not hasattr(value, "data_ptr"):
        return value if signed is None else value.view(signed)
    if not held_otherwise(value.dtype):
        return value
    import torch

    value = value.detach()
    return torch.view_as_real(value.resolve_conj()) if signed is None else value.view(getattr(torch, signed))


def fitting(value, weight: dict):
    """The value of a weight in the layout that the plan describes."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise InputError(f"weight {weight['name']!r} is of type {type(value).__name__}, and has to be a tensor or an array")
    have, value = (name_of(value.dtype), list(value.shape)), held(value)
    if (name_of(value.dtype), list(value.shape)) != (weight["dtype"], weight["dims"]):
        raise InputError(f"weight {weight['name']!r} is {have[0]} {have[1]}, but the engine was built for {weight['dtype']} {weight['dims']}")
    if not hasattr(value, "data_ptr"):
        return in_order(value, weight.get("order"))
    from .plain_tensors import why_not

    if why := why_not(value, weight["name"]):
        raise InputError(f"weight {weight['name']!r} {why[0]}", remedy=why[1])
    return in_order(value.detach(), weight.get("order"))


def in_order(value, order):
    """The tensor or array in dense memory, with its axes from outermost to innermost in this order (None: row-major). Not copied if it already is."""
    if not hasattr(value, "data_ptr"):
        import numpy as np

        return np.ascontiguousarray(value) if order is None else np.ascontiguousarray(value.transpose(order)).transpose(np.argsort(order))
    value = value.resolve_neg()  # the memory of a negative view holds other numbers
    if order is None:
        return value.contiguous()
    return value.permute(order).contiguous().permute([order.index(axis) for axis in range(len(order))])


def on_host(values: dict) -> dict:
    """The tensors by name, with those on a GPU copied to the host. Tensors that share memory still share it."""
    copies: dict = {}
    return {n: copies.setdefault((t.data_ptr(), t.shape, t.stride()), t.cpu()) if getattr(t, "is_cuda", False) else t for n, t in values.items()}


def memory(value):
    """The address, size in bytes and strides of a dense tensor or array."""
    if hasattr(value, "data_ptr"):
        strides, at, size = value.stride(), value.data_ptr(), value.numel() * value.element_size()
    else:
        strides, at, size = [s // value.itemsize for s in value.strides], value.ctypes.data, value.nbytes
    return at, size, (c_int64 * max(len(strides), 1))(*strides)


def sources(values: dict):
    """The C table of dense values by name."""
    table = (WeightSource * max(len(values), 1))()
    for entry, (name, value) in zip(table, values.items()):
        entry.name, (entry.data, entry.bytes, entry.strides) = name.encode(), memory(value)
    return table


def numpy_type(name):
    import numpy as np

    return np.dtype("uint16" if name == "bfloat16" else name)


def native(array):
    """The array in this machine's byte order, with strides that are multiples of the element size."""
    if array.dtype.isnative and not any(s % array.itemsize for s in array.strides):
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C")


def broadcast(value, binding: dict):
    """A row-major array of the dtype and dims of a state."""
    import numpy as np

    try:
        return np.ascontiguousarray(np.broadcast_to(np.asarray(value, numpy_type(binding["dtype"])), binding["dims"]))
    except (TypeError, ValueError) as problem:
        raise InputError(f"state {binding['name']!r} is {binding['dtype']} {binding['dims']}, but the given value cannot be converted to it: {problem}") from None


def plain(value, device, binding: dict, what: str):
    """A value in a form that fill() takes: torch tensors and arrays on a GPU (`__cuda_array_interface__`: CuPy, Numba) unchanged, all else as a numpy array. device: the engine's."""
    where = getattr(getattr(value, "device", None), "type", "cpu") if hasattr(value, "data_ptr") else "cuda" if hasattr(value, "__cuda_array_interface__") else None
    if where is None:
        import numpy as np

        return native(np.asarray(value))
    if hasattr(value, "data_ptr") and where == "cuda":
        where = str(value.device)  # with its number
    if where != "cpu" and not (device or "").startswith(where):
        raise InputError(f"{what} {binding['name']!r} is on {where}, and the engine runs on {device}", remedy="copy it there, or load the engine where the tensor is (device=)")
    return value


def is_writeable(array) -> bool:
    """True if a run can write the array in place."""
    if hasattr(array, "data_ptr"):
        return True
    if hasattr(array, "__cuda_array_interface__"):
        return not array.__cuda_array_interface__["data"][1]
    return getattr(getattr(array, "flags", None), "writeable", False) and native(array) is array


def _described(array):
    """(address, name of the dtype, sizes, strides in elements)."""
    if hasattr(array, "data_ptr"):
        if array.is_neg() or array.is_conj() or str(array.layout) != "torch.strided":
            raise InputError("a tensor that is sparse, negated or conjugated lazily has no plain memory", remedy="give tensor.to_dense().resolve_neg()")
        return array.data_ptr(), str(array.dtype).removeprefix("torch."), tuple(array.shape), array.stride()
    if not hasattr(array, "ctypes"):
        return _described_on_gpu(array.__cuda_array_interface__)
    return array.ctypes.data, array.dtype.name, array.shape, tuple(s // array.itemsize for s in array.strides)


def _described_on_gpu(told: dict):
    """The same of a `__cuda_array_interface__`, once what its owner computes in a stream of its own is done."""
    import numpy as np

    dtype, shape, steps = np.dtype(told["typestr"]), tuple(told["shape"]), told.get("strides")
    if steps is None:
        steps = [dtype.itemsize] * len(shape)
        for d in reversed(range(len(shape) - 1)):
            steps[d] = steps[d + 1] * shape[d + 1]
    if told.get("mask") is not None or not dtype.isnative or any(s % dtype.itemsize for s in steps):
        raise InputError("an array on the GPU that has a mask, another byte order, or strides between its elements is not read there", remedy="give a plain copy of it")
    _wait_for(told.get("stream"))
    return told["data"][0], dtype.name, shape, tuple(s // dtype.itemsize for s in steps)


def _wait_for(stream):
    """Waits for a CUDA stream, by its number in `__cuda_array_interface__`. Runs are work in the default stream (1), which comes after each thread's default stream (2) by itself."""
    if stream in (None, 1, 2):
        return
    if status := ctypes.CDLL("libcuda.so.1").cuStreamSynchronize(c_void_p(stream)):
        raise DeviceError(f"the stream of an array on the GPU cannot be waited for (the driver's error {status})")


def fill(tensor: Tensor, array, binding: dict, what: str):
    """Points a C tensor at an array from plain(); returns the objects that must stay alive."""
    address, dtype, shape, steps = _described(array)
    if dtype == "uint16" and binding["dtype"] == "bfloat16":
        dtype = "bfloat16"
    if dtype not in _DTYPES:
        raise InputError(f"{what} {binding['name']!r} is {dtype}, but the engine takes {binding['dtype']}", remedy=f"convert it to {binding['dtype']}")
    rank = len(shape)
    dims, strides = (c_int64 * max(rank, 1))(*shape), (c_int64 * max(rank, 1))(*steps)
    tensor.data, tensor.dtype, tensor.rank = address, _DTYPES.index(dtype), rank
    tensor.dims, tensor.strides = ctypes.cast(dims, POINTER(c_int64)), ctypes.cast(strides, POINTER(c_int64))
    return array, dims, strides
