"""Tensors beside a page that may not be touched: what reads or writes outside of them ends the process."""

import ctypes
import math
import mmap

import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def guarded(tensor: torch.Tensor, at_end: bool) -> torch.Tensor:
    """A copy of a dense tensor, in any order of axes, whose memory ends where such a page begins, or begins where one ends. It is never released."""
    size, page = tensor.numel() * tensor.element_size(), mmap.PAGESIZE
    whole = math.ceil(size / page) * page
    memory = _libc.mmap(None, whole + 2 * page, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert memory not in (None, ctypes.c_void_p(-1).value)
    assert _libc.mprotect(memory, page, 0) == 0 and _libc.mprotect(memory + page + whole, page, 0) == 0
    start = memory + page + (whole - size if at_end else 0)
    flat = torch.frombuffer((ctypes.c_char * size).from_address(start), dtype=tensor.dtype)
    return flat.as_strided(tensor.shape, tensor.stride()).copy_(tensor)
