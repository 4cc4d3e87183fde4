"""XXH3 of xxHash's own library, for tests that make whole files with checksums that fit (src/base/hash.h)."""

import ctypes


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_library = ctypes.CDLL("libxxhash.so.0")
_library.XXH3_64bits.restype, _library.XXH3_64bits.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
_library.XXH3_128bits.restype, _library.XXH3_128bits.argtypes = _Hash128, [ctypes.c_char_p, ctypes.c_size_t]


def hash64(data: bytes) -> int:
    return _library.XXH3_64bits(data, len(data))


def hash128(data: bytes) -> bytes:
    """In the canonical order of bytes."""
    found = _library.XXH3_128bits(data, len(data))
    return found.high.to_bytes(8, "big") + found.low.to_bytes(8, "big")
