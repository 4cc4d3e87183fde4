"""torch.nn.Module: its dictionaries of tensors and hooks."""

from __future__ import annotations

import contextlib
import functools
import sys

import torch
from torch.nn.modules import activation as _activation
from torch.nn.modules import module as _module
from torch.nn.modules.transformer import _detect_is_causal_mask as asks_whether_causal  # by the values of a mask

from .dynamo import know_functions
from .patched import patched
from .tensors import FakeTensor

call_of_module = torch.nn.Module._wrapped_call_impl  # torch.nn.Module.__call__ when nobody traces
HOOKS_OF_ALL = (_module._global_forward_hooks, _module._global_forward_pre_hooks)  # run around every module's forward: a quick call would leave them out


def place_of_move(*args, **kwargs):
    """What module.to(..) is asked for: device and type, each or None, whether to wait, and a memory format or None."""
    return torch._C._nn._parse_to(*args, **kwargs)


def own_parameters(module: torch.nn.Module) -> dict:
    """Its own parameters by name, to be replaced in place."""
    return module._parameters


def own_buffers(module: torch.nn.Module) -> dict:
    """Its own buffers by name."""
    return module._buffers


def own_children(module: torch.nn.Module) -> dict:
    """Its own parts by name, without a call of named_children, which a look-up in each call cannot pay."""
    return module._modules


def own_hooks(module: torch.nn.Module) -> tuple[dict, dict]:
    """Its hooks before and after forward."""
    return module._forward_pre_hooks, module._forward_hooks


def setting_attributes_by(make):
    """PATCH torch.nn.Module.__setattr__: make(the original) is called instead. Numbers that forward changes are noticed by it."""
    return patched(torch.nn.Module, "__setattr__", make)


@contextlib.contextmanager
def attention_traced_as_in_eager():
    """PATCH torch.overrides.has_torch_function and _is_make_fx_tracing of torch.nn.modules.activation: nn.MultiheadAttention asks them whether its kernel for inference takes the operands. A trace's
    modes do not keep it from that. Where eager takes the kernel, which needs a bias, it is told that it is traced: then it gives results in the kernel's layout."""
    asks = torch.nn.MultiheadAttention.forward.__code__

    def without_modes(plain):
        def asked(operands):
            traced = sys._getframe(1).f_code is asks and all(operand is None or type(operand) in _PLAIN for operand in operands)
            return False if traced else plain(operands)

        return asked

    def with_bias(plain):
        return lambda: sys._getframe(1).f_locals["self"].in_proj_bias is not None

    know_functions()
    with patched(torch.overrides, "has_torch_function", without_modes), patched(_activation, "_is_make_fx_tracing", with_bias):
        yield


_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


@functools.cache
def codes_of_packed_sequences() -> frozenset:
    """The code of the function that every new PackedSequence calls, and of the one that makes a padded tensor of it."""
    from torch.nn.utils import rnn

    return frozenset({rnn._packed_sequence_init_args.__code__, rnn.pad_packed_sequence.__code__})
