"""A module with parts in torch as one CUDA graph: engines and torch's operators are recorded together, and replayed by one launch."""

from __future__ import annotations

import logging

import torch

from ...base.processes import Lock
from ...running.runners import TorchGraph
from ...torch_internals.tensors import count_of_modes
from .._said import log, once

_KEPT = 8  # recordings of a module
_recording = Lock()  # torch records one graph at a time


class Recorder:
    """The forward of a torch graph, which records it for each kind of call: sizes, dtypes and strides of the inputs, values of the numbers among them, stream.

    The first call of a kind runs as always, which creates what cannot be created in a recording; the second is recorded. So nothing runs twice, and sizes that do not come again
    cost nothing. Inputs are copied to memory of the recording, except those that the model writes: their addresses are part of the kind. Results are copied out, except those in
    the model's own tensors. Whatever changes a weight ends all recordings. A kind that cannot be recorded runs as always, and a warning says why.
    """

    def __init__(self, way: TorchGraph, device: torch.device):
        self._run, self._way, self._device = way.forward, way, device
        self._engines = list({id(s.engine): s.engine for s in way.segments}.values())
        self._lock, self._changes = Lock(), None
        self._recorded: dict = {}  # kind -> its Recording; None after the first call; False: it cannot be recorded

    def __call__(self, *flat):
        if torch.compiler.is_compiling() or count_of_modes() or torch.cuda.is_current_stream_capturing() or any(map(_of_another_kind, flat)):
            return self._run(*flat)
        with torch.cuda.device(self._device), self._lock():  # the memory of a recording serves one call at a time
            kind = self._kind(flat)
            changes = self._way.changes, *(e.changes for e in self._engines)
            if changes != self._changes:
                self._recorded.clear()
                self._changes = changes
            if kind not in self._recorded:
                results = self._run(*flat)
                while len(self._recorded) >= _KEPT:
                    del self._recorded[next(iter(self._recorded))]
                self._recorded[kind] = None
                return results
            if self._recorded[kind] is None:
                self._recorded[kind] = self._record(flat)
            recording = self._recorded[kind]
            return recording(flat) if recording else self._run(*flat)

    def _kind(self, flat):
        tensors = [(t.dtype, t.shape, t.stride(), t.data_ptr() if i in self._way.written else 0) if isinstance(t, torch.Tensor) else t for i, t in enumerate(flat)]
        return torch.cuda.current_stream().cuda_stream, torch.is_inference_mode_enabled(), *tensors

    def _record(self, flat):
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        state, stream = generator.clone_state(), torch.cuda.current_stream()
        try:
            with _recording():
                return Recording(self._run, flat, self._way)
        except Exception as problem:  # of any operator that torch runs
            torch.cuda.set_stream(stream)  # torch.cuda.graph leaves its own one where ending the recording fails
            generator.graphsafe_set_state(state)  # the other one takes itself for recorded
            first = problem.__context__ or problem  # where ending the recording has failed too
            log.warning("enable_cudagraphs: these inputs run without a recording, because a part in torch cannot be recorded: %s", str(first).partition("\n")[0])
            return False


def _of_another_kind(value):
    """Whether a value of a call has no memory on a GPU, where a recording would read it."""
    if not isinstance(value, torch.Tensor) or type(value) is torch.Tensor and value.is_cuda:
        return False
    once("cudagraphs of the CPU", f"enable_cudagraphs: an input is a {type(value).__name__} on {value.device}, so the call runs without a recording", logging.WARNING)
    return True


class Recording:
    """One CUDA graph with its memory."""

    def __init__(self, run, flat, way):
        written = set(way.written)
        self._written = [flat[i] for i in written]
        self._inputs = [t if i in written or not isinstance(t, torch.Tensor) else t.clone() for i, t in enumerate(flat)]
        self._copied = [i for i, t in enumerate(self._inputs) if t is not flat[i]]
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            results = run(*self._inputs)
        own = {_memory(t) for t in (*self._written, *way.graph.buffers(), *way.graph.parameters())}
        self._results = [(t, isinstance(t, torch.Tensor) and _memory(t) not in own) for t in results]

    def __call__(self, flat):
        for i in self._copied:
            self._inputs[i].copy_(flat[i])
        self._graph.replay()
        for t in self._written:
            if not t.is_inference():
                torch.autograd.graph.increment_version(t)  # torch does not count what a recording writes
        return [t.clone() if copied else t for t, copied in self._results]


def _memory(tensor):
    return tensor.untyped_storage().data_ptr()


def _on_the_cpu(way) -> str | None:
    """The operator that torch runs on the CPU: a recording holds what a GPU does. None if there is none."""
    for node in way.graph.graph.nodes:
        values = node.meta.get("val") if node.op == "call_function" else None
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                return str(node.target)
    return None


class recorded:
    """A context in which a module's parts in torch and its engines are one recording, if they can be. Whatever prevents it is logged."""

    def __init__(self, module):
        module = getattr(module, "compiled", module)  # of a MutableTorchTensorRTModule
        kind = getattr(getattr(module, "ingot_module", module), "_kind", None)
        way, self._way, self._device = getattr(kind, "way", None), None, getattr(kind, "device", None)
        if not isinstance(way, TorchGraph) or isinstance(way.forward, Recorder):
            return
        if self._device.type != "cuda":
            once("whole cudagraphs", "enable_cudagraphs: the module is on the CPU, so nothing is recorded")
        elif (operator := _on_the_cpu(way)) is not None:
            log.warning("enable_cudagraphs: torch runs %s on the CPU, so only the engines' runs are recorded, each by itself", operator)
        else:
            self._way = way

    def __enter__(self):
        if self._way is not None:
            self._before, self._way.forward = self._way.forward, Recorder(self._way, self._device)

    def __exit__(self, *problem):
        if self._way is not None:
            self._way.forward = self._before
