"""Detects changes of tensors: other memory, another tensor behind the Python object, a write that torch counted, or one that changed a few of its bytes."""

from __future__ import annotations

import ctypes
import functools
import operator
import weakref
from typing import Callable, NamedTuple

import torch

from .. import errors
from ..torch_internals.modules import own_children, own_parameters
from ..torch_internals.tensors import address_of, count_of_writes, without_modes
from . import _op


class Watch:
    """Tensors, with a snapshot from the last call of `adopt`. Registered engines ask it before each run whether the tensors have changed.

    torch counts writes to a tensor and to all tensors that share its memory, under no_grad too. It does not count writes through `.data`, NumPy or DLPack, or writes to tensors of
    torch.inference_mode. In the CPU's memory these are found by samples (see `_samples`). Nor does it count those of fused optimizers: see `written`.
    """

    def __init__(self):
        refresh = weakref.WeakMethod(self.refresh)  # engines hold their watch, but a watch holds no engine, so that both are freed at once
        self._native = _op.library().watch(lambda text, room: _call(refresh(), text, room))
        self.pointer, self.same = self._native.pointer, self._native.same
        self._marked = ctypes.c_uint64(0)
        self._written: set[int] = set()  # ids of tensors that were written without torch counting it
        self._held: list[Snapshot] = []
        self.adopt(Snapshot((), ()))
        _watches.add(self)
        _listen()

    def adopt(self, snapshot: "Snapshot"):
        """Sets the snapshot to compare with from now on. Take the snapshot before the values are read, so that writes meanwhile are noticed."""
        self._held.append(snapshot)  # the previous snapshot must also live while its words are read, wherever an interrupt comes
        self._native.set([ctypes.addressof(self._marked), 0, *snapshot.words], snapshot.halves, snapshot.unknown)
        self.snapshot = snapshot
        self._held[:] = [snapshot]
        self._written.clear()

    def changed(self) -> list[bool]:
        """For each tensor of the snapshot, whether it has changed since."""
        return [new or id(t) in self._written for t, new in zip(self.snapshot.tensors, self.snapshot.changed())]

    def mark(self, changed=True):
        """Notes that something else may have changed."""
        self._marked.value = changed

    def follow(self):
        """Brings the changes to the engines."""
        if not self.same():
            self.refresh()

    def refresh(self):
        raise NotImplementedError


class Snapshot:
    """A snapshot of tensors. counted: for each tensor, True if writes to it matter, False if only its memory does.

    gone: None if the snapshot keeps the tensors alive. Otherwise it does not keep parameters alive, and this is called when one dies; compare it no more then."""

    def __init__(self, tensors, counted, gone=None):
        tensors = list(tensors)
        self._tensors = [weakref.ref(t, gone) if gone is not None and isinstance(t, torch.nn.Parameter) else functools.partial(_itself, t) for t in tensors]
        self._counted, self.ids = list(counted), frozenset(map(id, tensors))
        with without_modes(), torch.inference_mode(False), torch.no_grad():
            self._alive = [t.detach() for t in tensors]  # keeps the memory and torch's write counter alive
        self._states = [_state(t, c) for t, c in zip(tensors, self._counted)]
        self.words, self.halves, self.unknown = [], [], False
        layout = _layout()
        places = [layout and layout.words(t, c) for t, c in zip(tensors, self._counted)]
        if not all(places) and tensors:
            self.unknown = True
            return
        self.words, self.halves = [[value for place in places for pair in place[i] for value in pair] for i in (0, 1)]

    @property
    def tensors(self) -> list:
        return [tensor() for tensor in self._tensors]

    def is_of(self, tensors, counted) -> bool:
        """True if it is one of these very tensors. Then another one would only forget what has changed meanwhile."""
        return len(tensors) == len(self._tensors) and all(map(operator.is_, tensors, self.tensors)) and counted == self._counted

    def changed(self) -> list[bool]:
        return [_state(t, c) != was for t, c, was in zip(self.tensors, self._counted, self._states)]


def _itself(t):
    return t


def _state(t, counted):
    memory = _memory(t)
    place = memory and (address_of(memory), memory.data_ptr(), t.storage_offset(), t.shape, t.stride(), t.is_neg())
    return address_of(t), place, count_of_writes(t) if counted and not t.is_inference() else None, _samples(t, memory) if counted else None


def _samples(t, memory):
    """Addresses and values of the bytes of the first, the middle and the last element, four at a time. Writes of a whole tensor that torch does not count change some of
    them: adapters are swapped, and averages of weights are kept, by `p.data.copy_()`. None of a tensor on a device: a read would wait for it."""
    if memory is None or t.device.type != "cpu" or t.numel() == 0:
        return []
    first, middle, last = (t.storage_offset() + sum(i * stride for i, stride in zip(at, t.stride())) for at in ([0] * t.dim(), [n // 2 for n in t.shape], [n - 1 for n in t.shape]))
    if t.itemsize * (last + 1) > memory.nbytes():  # its memory was freed, as torch's FSDP does
        return []
    words = range(max(t.itemsize // 4, 1))  # of an element
    return [(at, _half_word(at)) for at in {(memory.data_ptr() + t.itemsize * e) // 4 * 4 + 4 * w for e in (first, middle, last) for w in words}]


def _memory(t):
    """The storage of the tensor's elements; None if it has none."""
    try:
        memory = t.untyped_storage() if t.layout is torch.strided else None
        if memory is not None:
            memory.data_ptr()
        return memory
    except RuntimeError:  # a wrapper of other tensors
        return None


_INLINE = 5  # axes


class _Layout(NamedTuple):
    """Offsets of a tensor's fields in its objects. No interface gives them, so they are found by a probe, and compared with torch's answers for each tensor."""

    tensor: int   # in the Python object: the address of the C++ object
    storage: int  # in the C++ object: the address of the storage
    data: int     # in the storage: the address of the memory
    offset: int   # in the C++ object: the offset of the first element
    shape: int    # in the C++ object: up to five sizes, then up to five strides; for more axes the address of both
    count: Callable[[int], int]  # from the C++ object's address to the address of its write counter

    def words(self, t, counted):
        """Addresses with their content, each address read through the one before; and the same of the write counter and samples, read last. None if one differs from what it should be."""
        words = [id(t) + self.tensor, address_of(t)]
        memory = _memory(t)
        if memory is not None:
            words += [address_of(t) + self.storage, address_of(memory), address_of(memory) + self.data, memory.data_ptr(), address_of(t) + self.offset, t.storage_offset()]
            sizes, places = address_of(t) + self.shape, _INLINE
            if t.dim() > _INLINE:
                words += [sizes, _word(sizes)]
                sizes, places = _word(sizes), t.dim()
            for axis, (size, stride) in enumerate(zip(t.shape, t.stride())):
                words += [sizes + 8 * axis, size, sizes + 8 * (places + axis), stride]
        pairs = list(zip(words[::2], words[1::2]))
        halves = [(self.count(address_of(t)), count_of_writes(t))] if counted and not t.is_inference() else []
        if any(_word(at) != value for at, value in pairs) or any(_half_word(at) != value for at, value in halves):
            return None
        return pairs, halves + (_samples(t, memory) if counted else [])


@functools.cache
def _layout() -> _Layout | None:
    """The layout of this torch's tensors. None if they have another one; then each tensor is asked through torch."""
    with without_modes(), torch.inference_mode(False), torch.no_grad():  # whatever mode the caller is in
        t = torch.nn.Parameter(torch.empty(2000, device="cpu"), requires_grad=False)
        memory = t.untyped_storage()
        tensor = _find(id(t), type(t).__basicsize__ // 8, address_of(t))
        storage = _find(address_of(t), 8, address_of(memory))
        data = _find(address_of(memory), 6, memory.data_ptr())
        count = _op.library().count_of
        part = t.as_strided((7, 11), (101, 17), 1009)
        offset = _find(address_of(part), _WORDS, 1009)
        shape = next((8 * i for i in range(_WORDS - 2 * _INLINE) if [_word(address_of(part) + 8 * (i + j)) for j in (0, 1, _INLINE, _INLINE + 1)] == [7, 11, 101, 17]), None)
        if None in (tensor, storage, data, offset, shape, count(address_of(t))):
            return None
        for _ in range(3):
            if _half_word(count(address_of(t))) != count_of_writes(t):
                return None
            t.zero_()
        return _Layout(tensor, storage, data, offset, shape, count)


_watches: "weakref.WeakSet[Watch]" = weakref.WeakSet()


def written(ids: set):
    """Marks the tensors of these ids as written, because torch may not have counted it."""
    # Other threads and the collector may change the set. It is copied in one step; while a tuple of it is made, the collector may run.
    for watch in filter(None, [ref() for ref in _watches.data.copy()]):
        if here := watch.snapshot.ids & ids:
            watch._written |= here
            watch.mark()


@functools.cache
def _listen():
    from torch.nn.modules import module as registration
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_stepped)
    registration.register_module_parameter_registration_hook(_registered)
    registration.register_module_module_registration_hook(_registered)


def _stepped(optimizer, args, kwargs):
    """A fused optimizer's writes are not counted."""
    written({id(p) for group in optimizer.param_groups if group.get("fused") for p in group["params"]})


def _registered(owner, name, value):
    """A layer or parameter that takes another one's place in a model may have been written through `.data`: PEFT's layers do so before they give a model its own layer back.
    A new place only holds it: slices of lists, graphs."""
    if torch.compiler.is_compiling():  # asked first, as Dynamo guards whatever else is looked at
        return
    if value is not None and _watches and own_children(owner).get(name, own_parameters(owner).get(name)) is not None:
        written({id(p) for p in value.parameters()} if isinstance(value, torch.nn.Module) else {id(value)})


_WORDS = 22  # the least size of a tensor's C++ object, in words


def _word(at):
    return ctypes.c_uint64.from_address(at).value


def _half_word(at):
    return ctypes.c_uint32.from_address(at).value


def _find(at, count, value):
    return next((8 * i for i in range(count) if _word(at + 8 * i) == value), None)


def _call(changed, text, room):
    """Called from C: returns the status of an ingot.Error, and its text."""
    try:
        if changed is not None:
            changed()
        return 0
    except errors.Error as problem:
        said = problem.message + (f"\n  remedy: {problem.remedy}" if problem.remedy else "")
        code = errors.code_of(problem)
    except KeyboardInterrupt as problem:  # raised again when the call returns to Python
        _op.interrupts.append(problem)
        said, code = "interrupted while weights were prepared", errors.code_of(errors.CancelledError(""))
    except BaseException as problem:
        said, code = f"preparing the weights failed: {type(problem).__name__}: {problem}", errors.code_of(errors.InternalError(""))
    ctypes.memmove(text, said.encode()[:room], min(len(said.encode()), room))
    return code
