"""Hostile files, made with the project's own writers."""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path

import torch
from xxh3 import hash64, hash128

import ingot
from ingot.capture import signature
from ingot.engine import _library


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


# ---- the checksums of a plan (src/plan/file.h)


def sections(data: bytes):
    """Begin and end of the metadata and of the weights."""
    metadata, weights = struct.unpack_from("<2Q", data, 16)
    begin = -(-(128 + metadata) // 4096) * 4096
    return (128, 128 + metadata), (begin, begin + weights)


def seal(data: bytes) -> bytes:
    """The same bytes with checksums of metadata and header that fit, as seal.h."""
    (begin, end), _ = sections(data)
    head = data[:88] + hash128(data[begin:end]) + data[104:120]
    return head + struct.pack("<Q", hash64(head)) + data[128:]


def saved(engine) -> bytes:
    """The bytes of a plan that the library writes."""
    out, count = ctypes.c_void_p(), ctypes.c_size_t()
    _library.check(_library.lib().ingot_plan_write(engine._plan.pointer, 1, ctypes.byref(out), ctypes.byref(count)))
    try:
        return ctypes.string_at(out, count.value)
    finally:
        _library.lib().ingot_bytes_release(out)
