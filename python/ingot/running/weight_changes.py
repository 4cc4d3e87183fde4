"""Brings changes of a model's weights to its engines before the next call."""

from __future__ import annotations

import weakref

import torch
import torch.nn.modules.module as registration

from ..base.processes import Lock
from ..engine import plain_tensors
from ..engine.tensor_changes import Snapshot, Watch
from ..errors import InputError
from ..torch_internals.modules import own_buffers, own_parameters
from ..torch_internals.tensors import is_wrapped_by_functorch


class GivenWeights(Watch):
    """The tensors given for the weights of an engine from a file."""

    def __init__(self, engine):
        super().__init__()
        self._engine, self._tensors = weakref.ref(engine), {}
        self.taken(engine.given)

    def taken(self, values):
        """Notes that the engine has these values now."""
        self._tensors.update(values)
        self._tensors = {name: t for name, t in self._tensors.items() if isinstance(t, torch.Tensor)}
        self.adopt(Snapshot(self._tensors.values(), [True] * len(self._tensors)))

    def refresh(self):
        changed = {name: t for (name, t), new in zip(self._tensors.items(), self.changed()) if new}
        snapshot = Snapshot(self._tensors.values(), [True] * len(self._tensors))
        if changed and (engine := self._engine()) is not None:
            engine.replace(changed)
        self.adopt(snapshot)


class Followed(Watch):
    """The tensors that hold the weights and buffers of a model, by state-dict name.

    They are looked up again in their owners whenever an owner registers a parameter, a buffer or a module. Owners are the model, and the compiled module for
    tensors that it shows as its own. The last change counts, be it in an owner or by update_weights.
    """

    def __init__(self, slots, used):
        """used: the slots that something reads."""
        super().__init__()
        self._lock, self._used = Lock(), {s.name for s in used}
        self._slots = [s for s in slots if s.kind in ("weight", "state")]
        self._by_name = {s.name: s for s in self._slots}
        self._wanted = {s.name: (s.tensor.dtype, s.tensor.shape, s.tensor.device) for s in self._slots}
        self._odd = {s.name: plain_tensors.why_not(s.tensor, s.name) is not None for s in self._slots}  # only torch reads it
        self._owners: list[weakref.ref] = []
        self._shows: list[bool] = []
        self._seen = {s.name: {(None, s.name): s.tensor} for s in self._slots}  # for each slot its tensors by owner and name
        self._given: dict[str, torch.Tensor] = {}  # values from update_weights, instead of the owners' tensors
        self._loaded = False  # a state dict was loaded into tensors whose writes torch does not count
        self._engines, self._runnable = [], lambda: None
        self.adopt(self._snapshot(self._seen, self._given))

    def feeds(self, runnable):
        """Sets the Runnable that gets the changes. Once it is gone, only its engines get them."""
        self._engines, self._runnable = [weakref.ref(e) for e in runnable.engines], weakref.ref(runnable)

    def own(self, owner: torch.nn.Module, shows: bool = False):
        """Makes the module an owner of its tensors with the slots' names. It is not kept alive. shows: it also gets the tensors of other owners."""
        at = len(self._owners)
        self._owners.append(weakref.ref(owner))
        self._shows.append(shows)
        tensors = _tensors(owner)
        for slot in self._slots:
            found = {(at, name): tensors[name] for name in (slot.name, *slot.tied) if name in tensors}
            seen = self._seen[slot.name]
            if found:
                seen.pop((None, slot.name), None)
                seen.update(found)
        if any(t.is_inference() for seen in self._seen.values() for t in seen.values()):
            hook = _Loaded(self)
            weakref.finalize(self, _remove, [part.register_load_state_dict_post_hook(hook) for part in owner.modules()])
        _notice(owner, self)
        if shows:
            report_writes(owner, lambda name, tensor, self=weakref.ref(self): self() and self().mark())
        if not self.snapshot.is_of(*self._watched(self._seen, self._given)):
            self.adopt(self._snapshot(self._seen, self._given))

    def taken(self, values):
        """Notes that the engines have these values now."""
        with self._lock():
            self._given.update({name: t for name, t in values.items() if isinstance(t, torch.Tensor) and name in self._wanted})
            self.adopt(self._snapshot(self._seen, self._given))

    def refresh(self):
        with self._lock():
            if self.same():  # another thread has brought the changes meanwhile
                return
            self.mark(False)
            try:
                self._refresh()
            except BaseException:
                self.mark()
                raise
            self._loaded = False

    def _refresh(self):
        changed = {id(t) for t, new in zip(self.snapshot.tensors, self.changed()) if new or self._loaded and t.is_inference()}
        found = []
        for owner in self._owners:
            if (module := owner()) is not None:
                _notice(module, self)
            found.append(_tensors(module) if module is not None else {})
        seen, given, new = {}, dict(self._given), {}
        for slot in self._slots:
            before = self._seen[slot.name]
            seen[slot.name] = now = {(at, name): self._present(found[at], name) if at is not None and found[at] else t for (at, name), t in before.items()}
            touched = [key for key, t in now.items() if t is not before[key] or id(t) in changed]
            if touched and slot.name not in self._used and not self._fits(slot, now[touched[0]]):
                continue
            if touched:
                given.pop(slot.name, None)
                new[slot.name] = now[touched[0]]
                self._check(slot, now, touched[0])
            elif id(given.get(slot.name)) in changed:
                new[slot.name] = given[slot.name]
        for name, tensor in new.items():
            for at, other in seen[name]:
                if at is not None and self._shows[at] and (module := self._owners[at]()) is not None and name not in given:
                    _show(module, other, tensor)
                    seen[name][at, other] = tensor
        snapshot = self._snapshot(seen, given)
        self._bring(new)
        self._seen, self._given = seen, given
        self.adopt(snapshot)

    def _present(self, tensors, name):
        if name not in tensors:
            raise InputError(f"the model has no weight {name!r} any more", remedy="compile it again")
        return tensors[name]

    def _snapshot(self, seen, given):
        return Snapshot(*self._watched(seen, given))

    def _watched(self, seen, given):
        """The tensors of a snapshot, and for each whether writes to it matter."""
        kinds = {s.name: s.kind for s in self._slots}
        # Tensors that the model writes are passed in each call, so only their address matters here.
        tensors = {id(t): (t, kinds[name] == "weight") for name in seen for t in (*seen[name].values(), *([given[name]] if name in given else []))}
        return [t for t, _ in tensors.values()], [counted for _, counted in tensors.values()]

    def _fits(self, slot, tensor):
        return (self._odd[slot.name] or plain_tensors.why_not(tensor, slot.name) is None) and (tensor.dtype, tensor.shape) == self._wanted[slot.name][:2]

    def _check(self, slot, now, key):
        tensor, (dtype, shape, device) = now[key], self._wanted[slot.name]
        if is_wrapped_by_functorch(tensor):
            raise InputError(f"weight {key[1]!r} is one that torch.func transforms, and a compiled module has no derivatives", remedy="call the model itself")
        if not self._odd[slot.name] and (why := plain_tensors.why_not(tensor, key[1])):
            raise InputError(f"{'weight' if slot.kind == 'weight' else 'buffer'} {key[1]!r} {why[0]}", remedy=f"{why[1]}, or compile the model again")
        if not self._fits(slot, tensor):
            raise InputError(
                f"weight {key[1]!r} is {_short(tensor.dtype, tensor.shape)} now, but the engine was built for {_short(dtype, shape)}",
                remedy="compile the model again, or give it a weight as it was",
            )
        if slot.kind == "state" and tensor.device != device:
            raise InputError(f"buffer {key[1]!r} is on {tensor.device} now, but the engine was built for {device}", remedy=f"compile the model again, or move it back: model.to('{device}')")
        for (at, name), other in now.items():
            if at == key[0] and other is not tensor and other.data_ptr() != tensor.data_ptr() and not (other.shape == shape and torch.equal(other, tensor)):
                raise InputError(f"weights {key[1]!r} and {name!r} were one tensor when the model was compiled, and have different values now", remedy="tie them again, or compile the model again")

    def now(self, name) -> torch.Tensor:
        """The current tensor of the weight, on the device that it had when the model was compiled."""
        return self.placed(name, self.held(name))

    def held(self, name) -> torch.Tensor:
        """The current tensor of the weight, wherever it is."""
        return self._given[name] if name in self._given else self._by_name[name].tensor

    def placed(self, name, value):
        """A value for a weight, on the device that the weight had when the model was compiled."""
        return value.detach().to(self._wanted[name][2])

    def _bring(self, new):
        weights = {}
        for slot in self._slots:
            if slot.name in new:
                slot.tensor = new[slot.name]
                if slot.kind == "weight":
                    weights[slot.name] = slot.tensor  # an engine copies what it reads to its own device
        runnable = self._runnable()
        if runnable is not None:
            runnable.replace(weights, [s for s in self._slots if s.kind == "state" and s.name in new])
        else:
            for engine in filter(None, (e() for e in self._engines)):
                engine.replace(weights, strict=False)


def _short(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


def _tensors(module):
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _show(module, name, tensor):
    *path, leaf = name.split(".")
    part = module.get_submodule(".".join(path))
    (own_parameters(part) if leaf in own_parameters(part) else own_buffers(part))[leaf] = tensor


# ---- what modules register

_followed: "weakref.WeakKeyDictionary[torch.nn.Module, weakref.WeakSet[Followed]]" = weakref.WeakKeyDictionary()  # by each submodule of the owners
_hooked = False


class _Reporting(dict):
    """A dict of a module's parameters or buffers that calls `changed(name, tensor)` for each write. torch.func.functional_call and others write to these dicts directly."""

    def __init__(self, values, changed):
        super().__init__(values)
        self._changed = changed

    def __setitem__(self, name, tensor):
        super().__setitem__(name, tensor)
        self._changed(name, tensor)

    def __reduce_ex__(self, protocol):
        return dict, (dict(self),)  # a copy reports to nobody


def report_writes(owner, changed):
    """Calls `changed(name, tensor)` for each parameter and buffer that is set in a compiled module."""
    for path, part in owner.named_modules():
        for kind in ("_parameters", "_buffers"):
            part.__dict__[kind] = _Reporting(part.__dict__[kind], lambda name, tensor, path=path: changed(f"{path}.{name}" if path else name, tensor))


def _notice(owner, followed):
    global _hooked
    if not _hooked:
        _hooked = True
        registration.register_module_parameter_registration_hook(_registered)
        registration.register_module_buffer_registration_hook(_registered)
        registration.register_module_module_registration_hook(_registered)
    for part in owner.modules():
        _followed.setdefault(part, weakref.WeakSet()).add(followed)


def _registered(module, name, value):
    if torch.compiler.is_compiling():  # Dynamo must not trace this and guard on the followed modules; it repeats a traced model's registrations outside of the trace
        return
    for followed in _followed.get(module, ()):
        followed.mark()


class _Loaded:
    """The hook on each submodule whose weights are tensors of torch.inference_mode. Copies and pickles of the model do not keep it."""

    def __init__(self, followed=None):
        self._followed = weakref.ref(followed) if followed is not None else lambda: None

    def __call__(self, module, incompatible_keys):
        if (followed := self._followed()) is not None:
            followed._loaded = True
            followed.mark()

    def __reduce__(self):
        return _Loaded, ()


def _remove(handles):
    for handle in handles:
        handle.remove()
