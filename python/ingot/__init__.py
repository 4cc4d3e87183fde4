"""ingot: an inference compiler and runtime for PyTorch models."""

from ._engine import Engine, Session, load_engine, machine, ops, options
from .errors import (
    AccuracyError,
    CancelledError,
    DeviceError,
    Error,
    FormatError,
    InputError,
    InternalError,
    IoError,
    MemoryError,
    OptionError,
    UnsupportedError,
    VersionError,
)
from .inputs import Input

__version__ = "0.1.0"
_TORCH = {"compile": "module", "save": "module", "load": "module", "Module": "module", "explain": "module", "Report": "report", "ingot_backend": "backend"}
__all__ = sorted([n for n in globals() if n[0] != "_" and n not in ("errors", "inputs")] + list(_TORCH))


def __getattr__(name):
    # What needs torch is imported when it is first used: engines run without it.
    if name in _TORCH:
        import importlib

        return getattr(importlib.import_module(f".{_TORCH[name]}", __name__), name)
    raise AttributeError(f"module 'ingot' has no attribute {name!r}")
