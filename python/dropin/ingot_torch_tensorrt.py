"""The name `torch_tensorrt` for ingot.torch_tensorrt: the wheel torch-ingot-tensorrt.

A .pth file calls `install` when Python starts. From then on `import torch_tensorrt` gives ingot.torch_tensorrt, unless NVIDIA's package is installed: finders are asked one after another, and
this one is the last. It imports nothing of torch's before that.
"""

import importlib
import importlib.abc
import importlib.util
import sys

NAME = "torch_tensorrt"


class _Alias(importlib.abc.Loader):
    """Loads a module of ingot.torch_tensorrt under its other name: the same object."""

    def __init__(self, own):
        self._own = own

    def create_module(self, spec):
        module = importlib.import_module(self._own)
        self._spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self._spec  # importlib has put the alias's there

    def get_code(self, name):  # python -m
        return importlib.util.find_spec(self._own).loader.get_code(self._own)


def _spec(name):
    own = importlib.util.find_spec("ingot." + name)
    if own is None:
        return None
    spec = importlib.util.spec_from_loader(name, _Alias("ingot." + name), origin=own.origin, is_package=own.submodule_search_locations is not None)
    spec.submodule_search_locations = own.submodule_search_locations  # scripts look there for the package's files
    return spec


class _Top(importlib.abc.MetaPathFinder):
    """The package itself, where no other finder has it."""

    def find_spec(self, name, path=None, target=None):
        if name != NAME or importlib.util.find_spec("ingot") is None:
            return None
        if not any(isinstance(f, _Below) for f in sys.meta_path):
            sys.meta_path.insert(0, _Below())
        return _spec(name)


class _Below(importlib.abc.MetaPathFinder):
    """Its modules. In front of the finder of files, which would load them a second time."""

    def find_spec(self, name, path=None, target=None):
        package = sys.modules.get(NAME)
        return _spec(name) if name.startswith(NAME + ".") and package is not None and package is sys.modules.get("ingot." + NAME) else None


def install():
    """Gives the name away, once."""
    if not any(isinstance(f, _Top) for f in sys.meta_path):
        sys.meta_path.append(_Top())
