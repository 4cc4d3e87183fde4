"""Operators as torch's dispatcher keeps them: what a graph's nodes call."""

from __future__ import annotations

import contextlib

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket  # what a node's target is

DispatchKey = torch._C.DispatchKey                                 # whose kernels an operator has
has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key        # of an operator by name: those that have shapes need no rule of ingot's
below_autograd = torch._C._AutoDispatchBelowAutograd               # runs flex_attention without its derivative
key_is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded  # torch's tracers exclude autocast, which composites need
exclude_key = torch._C._dispatch_tls_set_dispatch_key_excluded
safe_softmax = torch._safe_softmax                                 # zeros for a row that is masked as a whole
assert_async = torch._assert_async                                 # an assertion as an operator, with a message
set_grad_enabled = torch._C._set_grad_enabled                      # what Dynamo's graphs call for torch.no_grad, and the next two for inference mode
enter_inference_mode = torch.autograd.grad_mode._enter_inference_mode
exit_inference_mode = torch.autograd.grad_mode._exit_inference_mode
enter_autocast = torch.amp.autocast_mode._enter_autocast           # what a graph calls that turns autocast on
OF_DERIVATIVES = ("torch._functorch", "torch._C._functorch", "torch.autograd")  # modules whose functions in a Dynamo graph compute derivatives
OF_VMAP = "torch._functorch.predispatch"                           # the module of what stands for torch.vmap in an exported graph


def schema_of(op: OpOverload) -> torch.FunctionSchema:
    """The operator's arguments and results, with what it writes and shares."""
    return op._schema


def overload_of(op: OpOverload) -> str:
    """Its overload: Tensor of add.Tensor."""
    return op._overloadname


def name_of(op: OpOverload) -> str:
    """Its name without namespace and overload: add of aten::add.Tensor."""
    return op._opname


def packet_of(op: OpOverload) -> OpOverloadPacket:
    """The operator with all of its overloads."""
    return op._overloadpacket


def of_custom_op(op) -> OpOverload | None:
    """The operator of torch.library.custom_op; None of something else."""
    found = getattr(op, "_opoverload", None)
    return found if isinstance(found, OpOverload) else None


def call_kernel(op: OpOverload, key, *args):
    """Runs one kernel of the operator: its own composite, where torch would take a decomposition."""
    return op._op_dk(key, *args)


def kernels_changed(op):
    """Makes the dispatcher look again for kernels in Python (`py_kernels`). Without it a replaced kernel is not seen."""
    op._dispatch_cache.clear()


@contextlib.contextmanager
def replaced(op, entries):
    """With these entries in the operator's tables of kernels: (table, key, kernel)."""
    before = [table[key] for table, key, _ in entries]
    for table, key, kernel in entries:
        table[key] = kernel
    kernels_changed(op)
    try:
        yield
    finally:
        for (table, key, _), kernel in zip(entries, before):
            table[key] = kernel
        kernels_changed(op)
