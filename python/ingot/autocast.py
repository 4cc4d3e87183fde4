"""torch.autocast. A graph that is captured under it, or has a region of it, gets its casts written out, so that its results depend on the mode no more."""

from __future__ import annotations

import torch

from .errors import InputError

enabled = torch.is_autocast_enabled
anywhere = getattr(torch._C, "_is_any_autocast_enabled", lambda: enabled("cpu"))  # on any device: quicker to ask
ANY = object()  # the state of what runs alike under every autocast


def state():
    """The dtype that autocast on the CPU casts to now; None when it is off."""
    return torch.get_autocast_dtype("cpu") if enabled("cpu") else None


def reaches(module: torch.fx.GraphModule) -> bool:
    """Autocast is on, or the graph turns it on."""
    if enabled("cpu"):
        return True
    return any(n.target is torch.amp.autocast_mode._enter_autocast for m in module.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes)


_PRODUCTS = {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "conv1d", "conv2d", "conv3d", "convolution", "scaled_dot_product_attention"}


def recorded(graph: torch.fx.Graph) -> bool:
    """The graph was exported under autocast: the results it has recorded are those of casts that are not among its nodes, for its own module
    casts as the region around a call says."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._opname in _PRODUCTS:
            values = [n.meta.get("val") for n in (node, *node.all_input_nodes[:1])]
            if all(isinstance(v, torch.Tensor) for v in values) and values[0].dtype != values[1].dtype:
                return True
    return False


def without(function):
    """`function` run with autocast off: its graph has all casts written out."""

    def run(*arguments):
        if not enabled("cpu"):
            return function(*arguments)
        with torch.autocast("cpu", enabled=False):
            return function(*arguments)

    return run


def check(captured):
    """Refuses a call under another autocast than the model was captured under, where eager's results would be others."""
    now = state()
    if captured is not ANY and now != captured:
        raise InputError(
            f"the module was compiled {_said(captured)}, but is called {_said(now)}, where the model would compute something else",
            remedy=f"compile it {_said(now)}, or call it {_said(captured)}",
        )


def _said(state):
    return 'under torch.autocast("cpu", enabled=False)' if state is None else f'under torch.autocast("cpu", dtype={state})'
