"""A compiled module follows the model it was made from: what load_state_dict puts into the model reaches the engine before the next call."""

from __future__ import annotations

import weakref

import torch


class _Loaded:
    """The hook on each part of the model. Copies and pickles of the model do not carry it on."""

    def __init__(self, compiled=None):
        self._compiled = weakref.ref(compiled) if compiled is not None else lambda: None

    def __call__(self, module, incompatible_keys):
        compiled = self._compiled()
        if compiled is not None:
            compiled._stale, compiled._quick = True, None

    def __reduce__(self):
        return _Loaded, ()


def follow(model: torch.nn.Module, compiled):
    """Marks `compiled` stale whenever a state dict is loaded into the model or a part of it."""
    hook = _Loaded(compiled)
    handles = [part.register_load_state_dict_post_hook(hook) for part in model.modules()]
    weakref.finalize(compiled, _remove, handles)
    compiled._followed = weakref.ref(model)
    return compiled


def _remove(handles):
    for handle in handles:
        handle.remove()


def refresh(compiled):
    """Binds the model's present tensors."""
    compiled._stale = False
    model = compiled._followed()
    if model is None or compiled._assembled is None:
        return
    held = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
    assembled = compiled._assembled
    replaced = {}
    for slot in assembled.slots:
        now = held.get(slot.name)
        if now is None or slot.kind not in ("weight", "state"):
            continue
        before, slot.tensor = slot.tensor, now
        if slot.kind == "weight":
            replaced[slot.name] = now
        elif now is not before:
            assembled.replace_state(slot)
    assembled.replace_weights(replaced)
