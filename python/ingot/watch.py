"""Whether tensors have changed since something was made from them: other memory, another tensor behind the object, or a write that torch has counted."""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Callable, NamedTuple

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import _op, errors


class Watch:
    """Tensors and what they were when `adopt` was last called. Engines that are registered with it ask it before each run.

    Torch counts writes to a tensor and to all that share its memory, under no_grad too; it does not count those through `.data`, NumPy or DLPack, nor any to
    tensors of torch.inference_mode. It does not count a fused optimizer's either: see _stepped.
    """

    def __init__(self):
        refresh = weakref.WeakMethod(self.refresh)  # an engine has its watch, and no watch an engine: what is not needed goes at once
        self._native = _op.library().watch(lambda text, room: _call(refresh(), text, room))
        self.pointer, self.same = self._native.pointer, self._native.same
        self._marked = ctypes.c_uint64(0)
        self._written: set[int] = set()  # by id, without being counted
        self._held: list[Snapshot] = []
        self.adopt(Snapshot((), ()))
        _watches.add(self)
        _hear_of_steps()

    def adopt(self, snapshot: "Snapshot"):
        """What the tensors are from now on compared with. Take it before their values are read: writes meanwhile are noticed then."""
        self._held.append(snapshot)  # nor does the one before go while its words are read, wherever an interrupt comes
        self._native.set([ctypes.addressof(self._marked), 0, *snapshot.words], snapshot.counts, snapshot.unknown)
        self.snapshot = snapshot
        self._held[:] = [snapshot]
        self._written.clear()

    def changed(self) -> list[bool]:
        """Of each tensor of the snapshot, whether it has changed since."""
        return [new or id(t) in self._written for t, new in zip(self.snapshot.tensors, self.snapshot.changed())]

    def mark(self, changed=True):
        """Something else may have changed."""
        self._marked.value = changed

    def follow(self):
        """Brings what has changed to the engines."""
        if not self.same():
            self.refresh()

    def refresh(self):
        raise NotImplementedError


class Snapshot:
    """What tensors are now. `counted`: of each, whether writes to it matter, or only which memory it has."""

    def __init__(self, tensors, counted):
        self.tensors = list(tensors)
        self._counted = list(counted)
        with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
            self._alive = [t.detach() for t in self.tensors]  # the memory, and the number that torch counts in
        self._states = [_state(t, c) for t, c in zip(self.tensors, self._counted)]
        self.words, self.counts, self.unknown = [], [], False
        layout = _layout()
        places = [layout and layout.words(t, c) for t, c in zip(self.tensors, self._counted)]
        if not all(places) and self.tensors:
            self.unknown = True
            return
        self.words = [value for words, _ in places for pair in words for value in pair]
        self.counts = [value for _, counts in places for value in counts]

    def changed(self) -> list[bool]:
        return [_state(t, c) != was for t, c, was in zip(self.tensors, self._counted, self._states)]


def _state(t, counted):
    memory = _memory(t)
    lies = memory and (memory._cdata, memory.data_ptr(), t.storage_offset(), t.shape, t.stride(), t.is_neg())
    return t._cdata, lies, t._version if counted and not t.is_inference() else None


def _memory(t):
    """The storage that it has its elements in; None where it has none."""
    try:
        memory = t.untyped_storage() if t.layout is torch.strided else None
        if memory is not None:
            memory.data_ptr()
        return memory
    except RuntimeError:  # a tensor around others
        return None


_INLINE = 5  # axes


class _Layout(NamedTuple):
    """Where in their objects the parts of a tensor are. No interface says so: it is found with a tensor, and compared with what torch says for each."""

    tensor: int   # in a Python object, the C++ one's address
    storage: int  # in that, the storage's
    data: int     # in that, the memory's
    offset: int   # in the C++ object, how far into the memory its elements begin
    shape: int    # in that, up to five sizes, then as many places for strides; of more axes the address of both
    count: Callable[[int], int]  # from the C++ object's address to where its writes are counted

    def words(self, t, counted):
        """Addresses with what is there, each read through the one before it; and the count. None when one is not what it should be."""
        words = [id(t) + self.tensor, t._cdata]
        if (memory := _memory(t)) is not None:
            words += [t._cdata + self.storage, memory._cdata, memory._cdata + self.data, memory.data_ptr(), t._cdata + self.offset, t.storage_offset()]
            sizes, places = t._cdata + self.shape, _INLINE
            if t.dim() > _INLINE:
                words += [sizes, _word(sizes)]
                sizes, places = _word(sizes), t.dim()
            for axis, (size, stride) in enumerate(zip(t.shape, t.stride())):
                words += [sizes + 8 * axis, size, sizes + 8 * (places + axis), stride]
        pairs = list(zip(words[::2], words[1::2]))
        counts = [self.count(t._cdata), t._version] if counted and not t.is_inference() else []
        if any(_word(at) != value for at, value in pairs) or counts and ctypes.c_uint32.from_address(counts[0]).value != counts[1]:
            return None
        return pairs, counts


@functools.cache
def _layout() -> _Layout | None:
    """None: this torch's tensors are made otherwise, and each is asked by itself."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():  # whatever the caller is in
        t = torch.nn.Parameter(torch.empty(2000, device="cpu"), requires_grad=False)
        memory = t.untyped_storage()
        tensor = _find(id(t), type(t).__basicsize__ // 8, t._cdata)
        storage = _find(t._cdata, 8, memory._cdata)
        data = _find(memory._cdata, 6, memory.data_ptr())
        count = _op.library().count_of
        part = t.as_strided((7, 11), (101, 17), 1009)
        offset = _find(part._cdata, _WORDS, 1009)
        shape = next((8 * i for i in range(_WORDS - 2 * _INLINE) if [_word(part._cdata + 8 * (i + j)) for j in (0, 1, _INLINE, _INLINE + 1)] == [7, 11, 101, 17]), None)
        if None in (tensor, storage, data, offset, shape, count(t._cdata)):
            return None
        for _ in range(3):
            if ctypes.c_uint32.from_address(count(t._cdata)).value != t._version:
                return None
            t.zero_()
        return _Layout(tensor, storage, data, offset, shape, count)


_watches: "weakref.WeakSet[Watch]" = weakref.WeakSet()


@functools.cache
def _hear_of_steps():
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(_stepped)


def _stepped(optimizer, args, kwargs):
    """Kernels of fused optimizers write parameters, and torch does not count that."""
    written = {id(p) for group in optimizer.param_groups if group.get("fused") for p in group["params"]}
    for watch in list(_watches) if written else ():
        if here := {id(t) for t in watch.snapshot.tensors} & written:
            watch._written |= here
            watch.mark()


_WORDS = 22  # of a tensor's C++ object, at least


def _word(at):
    return ctypes.c_uint64.from_address(at).value


def _find(at, count, value):
    return next((8 * i for i in range(count) if _word(at + 8 * i) == value), None)


def _call(changed, text, room):
    """From C: the status of an error of ours, with its text."""
    try:
        if changed is not None:
            changed()
        return 0
    except errors.Error as problem:
        said = problem.message + (f"\n  remedy: {problem.remedy}" if problem.remedy else "")
        code = errors.code_of(problem)
    except KeyboardInterrupt as problem:  # goes on where the call returns to Python
        _op.interrupts.append(problem)
        said, code = "interrupted while weights were prepared", errors.code_of(errors.CancelledError(""))
    except BaseException as problem:
        said, code = f"preparing the weights failed: {type(problem).__name__}: {problem}", errors.code_of(errors.InternalError(""))
    ctypes.memmove(text, said.encode()[:room], min(len(said.encode()), room))
    return code
