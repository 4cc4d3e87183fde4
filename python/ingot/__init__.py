"""ingot: an inference compiler and runtime for PyTorch models."""

import sys as _sys
from typing import TYPE_CHECKING

from .engine._engine import Engine, Session, load_engine
from .engine._library import include_path, library_path, machine, ops, options
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
    SingularError,
    UnsupportedError,
    VersionError,
)
from .engine.profile import Profile
from .engine.state import State
from .engine.weights import Weights
from .inputs import Input

if TYPE_CHECKING:  # for editors and type checkers, to whom names that are imported at first use would be Any
    from .ahead_of_time import compile, explain
    from .backend import ingot_backend
    from .autocast_options import Autocast
    from .capture.external import Launch, register_kernel
    from .files import load, save
    from .module.module import Module
    from .module.verification import verify
    from .mutable import MutableModule
    from .running.report import Report

__version__ = "0.1.0"
_TORCH = {
    "compile": "ahead_of_time", "explain": "ahead_of_time", "save": "files", "load": "files", "Module": "module.module", "MutableModule": "mutable", "Report": "running.report", "ingot_backend": "backend",
    "verify": "module.verification", "Autocast": "autocast_options", "register_kernel": "capture.external", "Launch": "capture.external",
}
__all__ = [
    "AccuracyError", "Autocast", "CancelledError", "DeviceError", "Engine", "Error", "FormatError", "Input", "InputError", "InternalError", "IoError",
    "Launch", "MemoryError", "Module", "MutableModule", "OptionError", "Profile", "Report", "Session", "SingularError", "State", "UnsupportedError",
    "VersionError", "Weights", "compile", "explain", "include_path", "ingot_backend", "library_path", "load", "load_engine", "machine", "ops",
    "options", "register_kernel", "save", "verify",
]  # fmt: skip


if not TYPE_CHECKING:  # to a type checker, with it every name would be there

    def __getattr__(name):
        # Names that need torch are imported at first use, because engines run without torch.
        if name in _TORCH:
            import importlib

            try:
                return getattr(importlib.import_module(f".{_TORCH[name]}", __name__), name)
            except ModuleNotFoundError as problem:
                if problem.name != "torch":
                    raise
                raise ModuleNotFoundError(
                    f"ingot.{name} needs PyTorch, which is not installed: pip install torch-ingot[torch]. Without it, ingot.load_engine(path) runs a .ingot file", name="torch"
                ) from None
        raise AttributeError(f"module 'ingot' has no attribute {name!r}")


def _others_of_the_name():
    """Warns where another project's distribution `ingot` is installed too: both write into the folder ingot, and what was installed last is imported."""
    import glob
    import os

    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for info in glob.glob(os.path.join(glob.escape(site), "ingot-*.dist-info")):
        import warnings

        version = os.path.basename(info)[len("ingot-") : -len(".dist-info")]
        warnings.warn(
            f"ingot: the distribution 'ingot' {version}, another project's, is installed together with torch-ingot, and both have a folder named ingot: files of one may be the other's. "
            "pip uninstall ingot, then pip install --force-reinstall --no-deps torch-ingot", RuntimeWarning, stacklevel=3)  # fmt: skip


def _register_op():
    from .capture import fake_quantisation, shapes_of_torch
    from .engine import _op

    fake_quantisation.define()
    shapes_of_torch.define()
    try:
        _op.library()
    except Error:
        pass  # its first use raises the error


class _WhenTorchComes:
    """An import hook for torch. Saved programs name an operator that must be registered before torch.export.load."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        import importlib.util

        _sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _register_op()

            spec.loader.exec_module = exec_module
        return spec


_others_of_the_name()
if "torch" in _sys.modules:
    _register_op()
else:
    _sys.meta_path.insert(0, _WhenTorchComes())
