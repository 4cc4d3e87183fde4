"""Memory for the results of an engine's next call, made right after a call, while the GPU works."""

from __future__ import annotations

import torch

from ..torch_internals.tensors import count_of_owners


class ResultMemory:
    """It serves a call with inputs of the same sizes in the same stream; another call gets new memory.

    inner: only later steps of the same model read the results. Their memory is then used again, unless somebody holds one of them: a result of the model may be a view of it.
    Other results belong to the caller, so that each call gets memory of its own. Calls may run side by side: one of them gets what is ready.
    """

    def __init__(self, allocate, device: torch.device, inner: bool):
        self._allocate, self._device, self._inner = allocate, device, inner
        self._ready: list = []  # (kind of the call, tensors), at most one

    @property
    def tensors(self) -> list[torch.Tensor]:
        """What the next call gets."""
        return next((tensors for _, tensors in list(self._ready)), [])

    def kind(self, flat):
        """What must be the same for a call to get the memory; None for a call that gets none: one that is traced, or recorded by the caller, who then gives memory."""
        if torch.compiler.is_compiling() or any(type(t) is not torch.Tensor for t in flat):
            return None
        on_gpu = self._device.type == "cuda"
        if on_gpu and torch.cuda.is_current_stream_capturing():
            return None
        return torch.cuda.current_stream(self._device).cuda_stream if on_gpu else None, torch.is_inference_mode_enabled(), [t.shape for t in flat]

    def take(self, kind, flat) -> list[torch.Tensor]:
        """The results of a call of this kind, to be written."""
        try:
            made_for, tensors = self._ready.pop()
        except IndexError:
            made_for = None
        if made_for != kind or self._inner and not all(map(_free, tensors)):
            return self._allocate(flat)
        return [t.detach() for t in tensors] if self._inner else tensors

    def after(self, kind, flat, results):
        """Makes memory for the next call. results: those of this one."""
        try:
            self._ready[:] = [(kind, [t.detach() for t in results] if self._inner else self._allocate(flat))]
        except RuntimeError:  # no memory: the next call asks for it again, and reports it
            self._ready.clear()


def _free(tensor) -> bool:
    """Whether no other tensor has this memory."""
    memory = tensor.untyped_storage()
    return count_of_owners(memory) == 2  # the tensor, and the object that is asked
