"""One call of an operator as a graph of its own: captured whole (as torch.export's training IR keeps it), compiled, run."""

from __future__ import annotations

import linecache
import re
import warnings

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from ingot.capture import composites, fix, reshapes
from ingot.capture.fixes import order
from ingot.capture.functional import Functional, Slot
from ingot.capture.traced import Traced
from ingot.capture.writer import write
from ingot.engine import _engine, _library

# torch keeps a stack trace for every node and guard; looking up on disk whether each frame's file has changed was half of a capture.
linecache.checkcache = lambda filename=None: None

WIDE = {torch.float16, torch.bfloat16, torch.float32}


class NotCaptured(Exception):
    """torch itself cannot trace the call. The text has the kind of torch's exception and the beginning of its message."""

    def __init__(self, problem):
        text = (str(problem).strip().splitlines() or [""])[0]
        super().__init__(f"torch cannot capture it: {type(problem).__name__}: {re.sub('[0-9]+', 'N', text)[:60]}")


class Call:
    """A sample of an OpInfo: its tensors in order, other arguments as constants. `targets`: the overloads in its capture, once it is compiled."""

    def __init__(self, op, sample):
        self.op = op
        leaves, self.spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        self.leaves = leaves
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self.tensors = [leaves[i].detach() for i in self.places]

    def __call__(self, *tensors, wide=False):
        leaves = [torch.float64 if wide and isinstance(leaf, torch.dtype) and leaf in WIDE else leaf for leaf in self.leaves]
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return [r for r in pytree.tree_leaves(self.op.op(*args, **kwargs)) if isinstance(r, torch.Tensor)]

    def exact(self):
        """The result with every float widened to float64, and integers promoting to float64."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return self(*(t.double() if t.dtype in WIDE else t for t in self.tensors), wide=True)
        finally:
            torch.set_default_dtype(before)

    def eager(self, backend: str, cpu: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results to compare the backend's with. cpu: eager's on the CPU. On a GPU, floats are compared with eager on the GPU, for its rounding errors. If eager there lacks the operator or returns
        integers (it may choose another of equal elements), the CPU's results are used."""
        if backend != "cuda":
            return cpu
        try:
            gpu = [r.cpu() for r in self(*(t.cuda() for t in self.tensors))]
        except (RuntimeError, NotImplementedError):
            return cpu
        same = len(gpu) == len(cpu) and all((g.dtype, g.shape) == (c.dtype, c.shape) for g, c in zip(gpu, cpu))
        return [g if g.dtype.is_floating_point else c for g, c in zip(gpu, cpu)] if same else cpu

    def compile(self, dynamic: bool, target: str = "cpu") -> "_library.Plan":
        mode = "symbolic" if dynamic else "real"
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                module = composites.traced(lambda: make_fx(self.__call__, tracing_mode=mode, pre_dispatch=True, _error_on_data_dependent_ops=True)(*self.tensors))
            except Exception as problem:
                raise NotCaptured(problem) from problem
        self.targets = {str(node.target) for node in module.graph.nodes if node.op == "call_function"}
        for node in module.graph.nodes:  # outputs come back as a list; unused nodes are removed
            if node.op == "output":
                node.args = (tuple(pytree.tree_leaves(node.args[0])),)
        layouts = reshapes.hang_on(module.graph)
        fix.run(order.FUNCTIONAL, Traced(module))
        slots = [Slot(n, "input", n.name, layout=layouts.get(n.name)) for n in module.graph.nodes if n.op == "placeholder"]
        for node in module.graph.nodes:
            if node.op == "get_attr":
                node.meta.setdefault("val", getattr(module, node.target))
                slots.append(Slot(node, "weight", node.target, getattr(module, node.target), "constant"))
        sizes = [s for slot in slots for s in slot.node.meta["val"].shape if isinstance(s, torch.SymInt)]
        ranges = sizes[0].node.shape_env.var_to_range.get if sizes else lambda symbol: None
        results = list(next(n for n in module.graph.nodes if n.op == "output").args[0])
        captured = write(Functional(module, slots, results, [], ranges).complete())
        model = _library.Model.from_json(captured.json, captured.weights)
        return model.compile({"fallback": "error", "target": target})


def to_numpy(t: torch.Tensor):
    t = t.contiguous()
    return t.view(torch.uint16).numpy() if t.dtype is torch.bfloat16 else t.numpy()


def to_torch(a: np.ndarray, dtype: str) -> torch.Tensor:
    t = torch.from_numpy(a)
    return t.view(torch.bfloat16) if dtype == "bfloat16" else t


def run(engine: _engine.Engine, tensors, backend: str) -> list[torch.Tensor]:
    arrays = [to_numpy(t) for t in tensors]
    made = engine.reference(*arrays) if backend == "reference" else engine.session().run(*arrays)
    return [to_torch(a, b["dtype"]) for a, b in zip(made, engine.outputs())]
