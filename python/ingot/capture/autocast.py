"""torch.autocast. A graph that is captured under it, or has a region of it, gets its casts written out. Then its results no longer depend on the mode."""

from __future__ import annotations

import contextlib
import threading

import torch

from ..errors import InputError
from ..torch_internals.operators import DispatchKey, OpOverload, enter_autocast, exclude_key, key_is_excluded, name_of
from ..torch_internals.tensors import autocast_set_by, is_any_autocast_on

enabled = torch.is_autocast_enabled
anywhere = is_any_autocast_on
REGION = torch.ops.higher_order.wrap_with_autocast  # of an exported program: its device, dtype, whether it is on, whether it caches, and its graph
ANY = object()  # the state of a model that runs alike under every autocast


KEYS = {"cpu": DispatchKey.AutocastCPU, "cuda": DispatchKey.AutocastCUDA}


def state(kind="cpu"):
    """The dtype to which autocast currently casts on this kind of device; None if it is off."""
    return torch.get_autocast_dtype(kind) if enabled(kind) else None


def reaches(module: torch.fx.GraphModule) -> bool:
    """True if autocast is on, or the graph turns it on."""
    if any(map(enabled, KEYS)):
        return True
    return any(n.target is enter_autocast for n in _nodes(module))


class Modes:
    """While torch traces a graph on this thread: knows for which kinds of device the region that it runs through has autocast on. Inside an operator torch does not say so, because
    its tracers run with autocast excluded."""

    def __enter__(self):
        self._on = {kind for kind in KEYS if enabled(kind)}
        self._thread, self._follows = threading.get_ident(), autocast_set_by(self._following)
        self._follows.__enter__()
        return self

    def __exit__(self, *exception):
        self._follows.__exit__(None, None, None)

    def _following(self, set_enabled):
        def follow(*arguments):
            set_enabled(*arguments)
            if threading.get_ident() == self._thread:
                self._on = {kind for kind in KEYS if enabled(kind)}

        return follow

    @contextlib.contextmanager
    def included(self):
        """Runs the operators inside under the region's autocast."""
        excluded = [KEYS[kind] for kind in self._on if key_is_excluded(KEYS[kind])]
        for key in excluded:
            exclude_key(key, False)
        try:
            yield
        finally:
            for key in excluded:
                exclude_key(key, True)


_PRODUCTS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "conv1d", "conv2d", "conv3d", "convolution", "scaled_dot_product_attention"}


def recorded(graph: torch.fx.Graph) -> bool:
    """True if the graph was exported under autocast. Its recorded results are those of casts that are not among its nodes, because its module casts as the
    region around a call says."""
    for node in graph.nodes:
        if isinstance(node.target, OpOverload) and name_of(node.target) in _PRODUCTS:
            values = [n.meta.get("val") for n in (node, *node.all_input_nodes[:1])]
            if all(isinstance(v, torch.Tensor) for v in values) and values[0].dtype != values[1].dtype:
                return True
    return False


def _nodes(module):
    return (n for m in module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes)


def without(function):
    """`function` run with autocast off, for a graph with all casts written out."""

    def run(*arguments):
        for kind in KEYS:
            if enabled(kind):
                with torch.autocast(kind, enabled=False):
                    return run(*arguments)
        return function(*arguments)

    return run


def check(captured, kind):
    """Refuses a call under another autocast than the model was captured under, if eager's results would differ. kind: the kind of device that the model is on."""
    now = state(kind)
    if captured is not ANY and now != captured:
        raise InputError(
            f"the module was compiled {_said(captured, kind)}, but is called {_said(now, kind)}, where the model would compute something else",
            remedy=f"compile it {_said(now, kind)}, or call it {_said(captured, kind)}",
        )


def _said(state, kind):
    return f'under torch.autocast("{kind}", ' + ("enabled=False)" if state is None else f"dtype={state})")
