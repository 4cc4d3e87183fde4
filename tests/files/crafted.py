"""Hostile files, made with the project's own writers."""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path

import torch

import ingot
from ingot.capture import signature
from ingot.engine import _library

_MASK = (1 << 64) - 1
_SECRET = [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F]


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).eval()


class Source:
    """The plan of a small model, with any text for a signature."""

    def __init__(self, module=None, inputs=None):
        self.text, models = "", []
        as_text, prepare = signature.as_text, _library.Model.set_signature

        def keep(model, text):
            models.append(model)
            self.text = text
            prepare(model, text)

        _library.Model.set_signature = keep
        try:
            dynamic = ingot.Input(min_shape=(1, 4), opt_shape=(2, 4), max_shape=(8, 4), name="x")
            self.module = ingot.compile(module or model(), inputs=inputs or [dynamic])
        finally:
            _library.Model.set_signature = prepare
        assert as_text is signature.as_text and len(models) == 1
        (self._model,) = models

    @property
    def signature(self) -> dict:
        return json.loads(self.text)

    def plan(self, text=None, **changes) -> bytes:
        """The file with this signature: a text, or the good one with some of its entries changed."""
        text = text if text is not None else json.dumps({**self.signature, **changes})
        self._model.set_signature(text)
        return self._model.compile({}).bytes(True)

    def write(self, path, *arguments, **changes) -> Path:
        Path(path).write_bytes(self.plan(*arguments, **changes))
        return Path(path)


# ---- the checksums of a plan (src/base/hash.cpp, src/plan/file.h)


def _mix(a, b):
    product = a * b
    return (product ^ (product >> 64)) & _MASK


def hash64(data: bytes, seed=0) -> int:
    lane = [seed ^ s for s in _SECRET[:4]]
    whole = len(data) // 64 * 64
    words = struct.unpack(f"<{whole // 8}Q", data[:whole])
    for at in range(0, len(words), 8):
        for k in range(4):
            lane[k] = _mix(words[at + 2 * k] ^ _SECRET[k], words[at + 2 * k + 1] ^ lane[k])
    h = _mix(lane[0], lane[1]) ^ _mix(lane[2], lane[3] ^ _SECRET[4])
    rest = data[whole:]
    while len(rest) >= 8:
        h = _mix(h ^ struct.unpack("<Q", rest[:8])[0], _SECRET[1])
        rest = rest[8:]
    return _mix(h ^ int.from_bytes(rest, "little") ^ _SECRET[2], len(data) ^ _SECRET[3])


def hash256(data: bytes) -> bytes:
    return b"".join(struct.pack("<Q", hash64(data, _mix(k + 1, _SECRET[4]))) for k in range(4))


def sections(data: bytes):
    """Begin and end of the metadata and of the weights."""
    metadata, metadata_bytes, weights, weights_bytes = struct.unpack("<4Q", data[16:48])
    return (metadata, metadata + metadata_bytes), (weights, weights + weights_bytes)


def seal(data: bytes) -> bytes:
    """The same bytes with checksums of metadata and header that fit, as seal.h."""
    (begin, end), _ = sections(data)
    head = data[:48] + hash256(data[begin:end]) + data[80:88] + bytes(8) + data[96:112]
    return head[:88] + struct.pack("<Q", hash64(head)) + head[96:] + data[112:]


def saved(engine) -> bytes:
    """The bytes of a plan that the library writes."""
    out, count = ctypes.c_void_p(), ctypes.c_size_t()
    _library.check(_library.lib().ingot_plan_write(engine._plan.pointer, 1, ctypes.byref(out), ctypes.byref(count)))
    try:
        return ctypes.string_at(out, count.value)
    finally:
        _library.lib().ingot_bytes_release(out)
