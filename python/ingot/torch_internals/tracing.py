"""torch's tracers: torch.export, make_fx, AOTAutograd; what they decompose, and what they ask while they trace."""

from __future__ import annotations

import contextlib
import logging
import threading

import torch
from torch._export import non_strict_utils
from torch._functorch import vmap
from torch._guards import TracingContext, detect_fake_mode  # of the trace that runs; the mode of fake tensors
from torch._subclasses.fake_tensor import (  # what a trace cannot know, each with a text of its own
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.export import _trace
from torch.export.exported_program import _override_composite_implicit_decomp as composites_by  # a context: {composite: function in its place}
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, make_fx  # the mode that records nodes; a graph of ATen's operators
from torch.utils._python_dispatch import _disable_current_modes

from . import operators
from .operators import OpOverload
from .patched import patched

FOLDERS_OF_TRACERS = ("_subclasses", "_functorch", "_export", "export", "fx")  # torch's folders in which a tracer raises
FOLDERS_OF_SHAPES = ("_refs", "_prims", "_prims_common", "_decomp", "_meta_registrations.py")  # and in which its rules for shapes do


def record_of_operator():
    """The code that records a call: its frame in a traceback has the operator in `func`."""
    return proxy_tensor.proxy_call.__code__


def guards_produced_by(make):
    """PATCH torch.export._trace.produce_guards_and_solve_constraints: make(the original) is called instead. It leaves torch the guards that fail in the ranges asked for."""
    return patched(_trace, "produce_guards_and_solve_constraints", make)


def functions_replaced_by(make):
    """PATCH _NonStrictTorchFunctionHandler._override: make(the original) is called instead, with a function of torch, its arguments and keywords. It gives what torch.export calls instead of these."""
    return patched(non_strict_utils._NonStrictTorchFunctionHandler, "_override", make)


_told = threading.local()  # `by`: what a thread's long texts are told to


def _tell(*values, **options):
    by = getattr(_told, "by", None)
    return print(*values, **options) if by is None else by(" ".join(map(str, values)))


def _untold(record):
    if (by := getattr(_told, "by", None)) is not None:
        by(record.getMessage())
    return by is None


@contextlib.contextmanager
def long_texts_told_to(tell):
    """PATCH print of torch.export._trace: in this thread, tell(text) gets what torch.export prints on failure: the graph, the traceback that fake tensors log for shapes that do not fit, and what is said of
    numbers that come from data."""
    vars(_trace)["print"] = _tell  # stays: another thread may be inside
    for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes"):
        logging.getLogger(name).addFilter(_untold)  # once, however often it is called
    before, _told.by = getattr(_told, "by", None), tell
    try:
        yield
    finally:
        _told.by = before


@contextlib.contextmanager
def mapped_along_first_axis():
    """PATCH torch._functorch.vmap._remove_batch_dim: results of torch.vmap are mapped along the first axis, and moved then. torch.export loses what moves them inside."""

    def moving(original):
        def removed(mapped, level, size, axis):
            made = original(mapped, level, size, 0)
            return made.movedim(0, axis) if axis else made

        return removed

    with patched(vmap, "_remove_batch_dim", moving):
        yield


def calls_recorded_by(make):
    """PATCH torch.fx.experimental.proxy_tensor.proxy_call: make(the original) is called instead, with the mode that records, an operator, whether it is one of autograd's, its arguments and keywords."""
    return patched(proxy_tensor, "proxy_call", make)


def node_of(tensor, mode: ProxyTorchDispatchMode) -> torch.fx.Node | None:
    """The node of a tensor in the graph that the mode records."""
    slot = proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    return None if slot is None else slot.proxy.node


outside_of_traces = _disable_current_modes  # a context in which tensors that are not fake are computed with


@contextlib.contextmanager
def truth_answered_by(make):
    """PATCH torch.Tensor.__bool__: make(the original) is called instead. Assertions about data are traced by it."""
    torch.Tensor.__bool__ = make(torch.Tensor.__bool__)
    try:
        yield
    finally:
        del torch.Tensor.__bool__  # the class below it has its own


def with_autograd_kernels(op: OpOverload, make):
    """PATCH an operator's kernels for autograd: make(each) takes the place of each. `composites_by` puts the first ones back."""
    for key in [key for key in op.py_kernels if key.name.startswith("Autograd")]:
        op.py_kernels[key] = make(op.py_kernels[key])
    operators.kernels_changed(op)
