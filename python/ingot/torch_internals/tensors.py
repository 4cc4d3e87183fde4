"""Tensors: fake ones, their memory, and the modes that a call runs under. Constants are for calls that cost under a microsecond, where a function of ours would show."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake  # tensors without values, which tracers record
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes as without_modes  # hears every operator; runs outside of all such modes
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_wrapper  # tensors that hold tensors, and compute with these: torchao's weights

from .patched import patched

no_torch_function = torch._C._disabled_torch_function_impl           # __torch_function__ of a subclass that changes no operator
count_of_modes = torch._C._len_torch_dispatch_stack                  # dispatch modes see only what goes through the dispatcher
is_tracing = torch._C._is_tracing                                    # torch.jit.trace must see operators
is_any_autocast_on = getattr(torch._C, "_is_any_autocast_enabled", lambda: torch.is_autocast_enabled("cpu"))  # on any device, where torch has it: quicker to ask
is_wrapped_by_functorch = torch._C._functorch.is_functorch_wrapped_tensor  # tensors inside torch.func's transforms have no memory
functorch_depth = torch._C._functorch.get_dynamic_layer_stack_depth  # a trace that fails inside vmap leaves its level on the stack, which the next undoes
functorch_undo_to = torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth
PROFILER, IS_PROFILING = vars(torch.autograd.profiler), "_is_profiler_enabled"  # PROFILER[IS_PROFILING]: the profiler sees only what goes through the dispatcher
FORWARD_MODE, LEVEL = vars(torch.autograd.forward_ad), "_current_level"         # FORWARD_MODE[LEVEL] >= 0: inside forward-mode derivatives, which engines lack


def address_of(tensor_or_storage) -> int:
    """The address of torch's C++ object: the identity of a tensor, and of memory that tensors share."""
    return tensor_or_storage._cdata


def count_of_writes(tensor: torch.Tensor) -> int:
    """How often torch has written a tensor in place: weights that changed are found by it."""
    return tensor._version


def count_of_owners(storage: torch.UntypedStorage) -> int:
    """How many tensors and Python objects have this memory: what nobody else has is reused."""
    return torch._C._storage_Use_Count(storage._cdata)


def is_zero_tensor(tensor: torch.Tensor) -> bool:
    """Whether it is one of autograd's zeros, which have no memory."""
    return tensor._is_zerotensor()


def is_view(tensor: torch.Tensor) -> bool:
    """Whether torch counts it as a view: torch.export would add guards on its base."""
    return tensor._is_view()


def is_contiguous_or_false(tensor: torch.Tensor) -> bool:
    """is_contiguous without guards on open sizes; False where these decide."""
    return torch._prims_common.is_contiguous_or_false(tensor)


def suggested_format(tensor: torch.Tensor) -> torch.memory_format:
    """channels_last of a tensor that is it, by the rule of torch's kernels."""
    return torch._prims_common.suggest_memory_format(tensor)


def row_major_strides(shape) -> tuple:
    """Strides of a row-major tensor, of open sizes too."""
    return torch._prims_common.make_contiguous_strides_for(shape)


def autocast_set_by(make):
    """PATCH torch.set_autocast_enabled, which torch.autocast calls: make(the original) is called instead. Which region a trace runs through is known by it."""
    return patched(torch, "set_autocast_enabled", make)
