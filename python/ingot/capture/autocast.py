"""torch.autocast. A graph that is captured under it, or has a region of it, gets its casts written out. Then its results no longer depend on the mode."""

from __future__ import annotations

import contextlib
import threading

import torch

from ..errors import InputError

enabled = torch.is_autocast_enabled
anywhere = getattr(torch._C, "_is_any_autocast_enabled", lambda: enabled("cpu"))  # on any device: quicker to ask
REGION = torch.ops.higher_order.wrap_with_autocast  # of an exported program: its device, dtype, whether it is on, whether it caches, and its graph
ANY = object()  # the state of a model that runs alike under every autocast


KEYS = {"cpu": torch._C.DispatchKey.AutocastCPU, "cuda": torch._C.DispatchKey.AutocastCUDA}


def state(kind="cpu"):
    """The dtype to which autocast currently casts on this kind of device; None if it is off."""
    return torch.get_autocast_dtype(kind) if enabled(kind) else None


def reaches(module: torch.fx.GraphModule) -> bool:
    """True if autocast is on, or the graph turns it on."""
    if any(map(enabled, KEYS)):
        return True
    return any(n.target is torch.amp.autocast_mode._enter_autocast for n in _nodes(module))


class Modes:
    """While torch traces a graph on this thread: knows for which kinds of device the region that it runs through has autocast on. Inside an operator torch does not say so, because
    its tracers run with autocast excluded."""

    def __enter__(self):
        self._on = {kind for kind in KEYS if enabled(kind)}
        self._thread, self._set = threading.get_ident(), torch.set_autocast_enabled
        torch.set_autocast_enabled = self._follow  # what torch.autocast calls
        return self

    def __exit__(self, *exception):
        torch.set_autocast_enabled = self._set

    def _follow(self, *arguments):
        self._set(*arguments)
        if threading.get_ident() == self._thread:
            self._on = {kind for kind in KEYS if enabled(kind)}

    @contextlib.contextmanager
    def included(self):
        """Runs the operators inside under the region's autocast."""
        excluded = [KEYS[kind] for kind in self._on if torch._C._dispatch_tls_is_dispatch_key_excluded(KEYS[kind])]
        for key in excluded:
            torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
        try:
            yield
        finally:
            for key in excluded:
                torch._C._dispatch_tls_set_dispatch_key_excluded(key, True)


_PRODUCTS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "conv1d", "conv2d", "conv3d", "convolution", "scaled_dot_product_attention"}


def recorded(graph: torch.fx.Graph) -> bool:
    """True if the graph was exported under autocast. Its recorded results are those of casts that are not among its nodes, because its module casts as the
    region around a call says."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._opname in _PRODUCTS:
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
