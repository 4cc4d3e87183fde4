"""Operations of torch.nn.Module that a compiled module refuses, each with what to do instead (docs/modules.md)."""

from __future__ import annotations

import sys

import torch

from ..errors import InputError, UnsupportedError
from ..torch_internals.modules import own_buffers, own_children, own_parameters


class NoPart(InputError, AttributeError):
    """The error for a part of the model that the compiled module does not have."""


def _not_held(kind, name):
    return kind(f"a compiled module does not hold {name!r}: its weights are the model's own tensors", remedy="model.load_state_dict(...), which it follows, or compiled.update_weights(...)")


class InferenceOnly(torch.nn.Module):
    """A module that computes what its model did when it was compiled: without gradients, on its device, and closed to tracers that follow Python."""

    def train(self, mode: bool = True):
        if mode:
            raise UnsupportedError("a compiled module computes what the model did when it was compiled, and has no other mode", remedy="train the model itself: the compiled module follows its weights")
        return super().train(False)

    def requires_grad_(self, requires_grad: bool = True):
        if requires_grad:
            raise UnsupportedError("a compiled module computes no gradients", remedy="train the model itself: the compiled module follows its weights")
        return super().requires_grad_(False)

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        unknown = sorted(set(state_dict) - set(self.state_dict())) if strict else []
        if unknown:
            raise _not_held(InputError, unknown[0])
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if any(name == weight.partition(".")[0] for weight in self._weight_names()):
                raise _not_held(NoPart, name) from None
            raise

    def _get_name(self):
        if isinstance(problem := sys.exc_info()[1], NoPart):  # torch.func.functional_call asks for parts of the model, and its own message says less
            raise problem
        return super()._get_name()

    def __setattr__(self, name, value):
        if isinstance(value, (torch.Tensor, torch.nn.Module)) and all(name not in held for held in (own_parameters(self), own_buffers(self), own_children(self))):
            if any(name == weight.partition(".")[0] for weight in self._weight_names()):
                raise _not_held(InputError, name)
        super().__setattr__(name, value)

    def _weight_names(self):
        """The names of weights in the model's state dict."""
        raise NotImplementedError

    def _replicate_for_data_parallel(self):
        raise UnsupportedError("a compiled module runs on one GPU", remedy="compile the model once on each, or leave torch.nn.DataParallel out")

    def __prepare_scriptable__(self):
        raise UnsupportedError("torch.jit.script cannot see into a compiled module", remedy=_SAVED)

    def _refuse_tracers(self, args, kwargs):
        """Refuses tracers that run forward to record what it does."""
        if torch.jit.is_tracing():
            raise UnsupportedError("torch.jit.trace cannot see into a compiled module", remedy=_SAVED)
        proxy = torch.fx.Proxy
        given = (args,) if isinstance(args, proxy) else (*args, *kwargs.values())
        for value in given:  # a loop: every call comes here
            if isinstance(value, proxy):
                raise UnsupportedError("torch.fx cannot see into a compiled module", remedy="trace with a torch.fx.Tracer whose is_leaf_module is True for ingot.Module")


_SAVED = 'ingot.save(compiled, path, format="exported_program"), or format="aot_inductor" for C++; torch.jit takes the model itself'
