"""A module's state in a file of safetensors, as states of engines are (src/runtime/state_file.cpp)."""

from __future__ import annotations

import json
import os

import torch

from ..base import atomic
from ..errors import FormatError, IoError, UnsupportedError

_NAMES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.complex64: "C64",
}  # fmt: skip


def write(tensors: dict[str, torch.Tensor], path):
    header, begin = {}, 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise UnsupportedError(f"buffer {name!r} is {tensor.dtype}, which a file of safetensors does not keep")
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, begin + tensor.nbytes]}
        begin += tensor.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)

    def make(temporary):
        with open(temporary, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for tensor in tensors.values():
                file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())

    atomic.write(path, make)


def opened(path):
    """The file, to be read. IoError if it cannot be."""
    try:
        return open(path, "rb")
    except OSError as problem:
        raise IoError(f"cannot read {os.fspath(path)}: {problem.strerror}", remedy=atomic.REMEDIES.get(problem.errno, "")) from None


def header(file) -> dict[str, tuple]:
    """Of each tensor in the file its type, its shape, and where its bytes begin and end behind the header, as the file says. Reads the header; FormatError if there is none."""
    try:
        size = int.from_bytes(file.read(8), "little")
        if size > os.fstat(file.fileno()).st_size:
            raise ValueError
        return {name: _entry(**entry) for name, entry in json.loads(file.read(size)).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FormatError(f"{file.name} is not a saved state") from None


def _entry(dtype, shape, data_offsets):
    low, high = data_offsets
    if type(low) is not int or type(high) is not int:
        raise ValueError
    return dtype, shape, low, high


def read(tensors: dict[str, torch.Tensor], path):
    """Fills the tensors with the values of a file that `write` wrote of tensors like these. FormatError, and nothing is written, if it was not."""
    name = os.fspath(path)
    with opened(path) as file:
        found, data = header(file), file.read()
    values = {}
    for key, tensor in tensors.items():
        kind, shape, low, high = found.get(key, (None, None, 0, 0))
        if kind != _NAMES.get(tensor.dtype) or shape != list(tensor.shape) or high - low != tensor.nbytes or not 0 <= low <= high <= len(data):
            raise FormatError(f"{name} has no buffer {key!r} of {tensor.dtype} {list(tensor.shape)} whole", remedy="load it into a state of the module that it was saved from")
        part = torch.frombuffer(bytearray(data[low:high]), dtype=torch.uint8) if high > low else torch.empty(0, dtype=torch.uint8)
        values[key] = part.view(tensor.dtype).reshape(tensor.shape)
    if found.keys() != tensors.keys():
        raise FormatError(f"{name} has other buffers: {', '.join(sorted(found.keys() - tensors.keys()))}", remedy="load it into a state of the module that it was saved from")
    with torch.no_grad():
        for key, value in values.items():
            tensors[key].copy_(value)
