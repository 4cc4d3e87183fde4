"""`ingot.MutableModule`: a model that is compiled when it is called, and again when a call or a change asks for it."""

from __future__ import annotations

import inspect
import types
from typing import NamedTuple

import torch

from . import ahead_of_time
from .base import atomic, processes
from .base.log import log
from .capture import autocast
from .engine import tensor_changes
from .errors import FormatError, InputError
from .inputs import Input
from .saving import torch_archive
from .torch_internals.modules import own_children, own_hooks
from .torch_internals.trees import pytree

_PLAIN = (bool, int, float, str, tuple, type(None))
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)


class Sizes:
    """The size ranges that a model is compiled for: for each tensor, by its path in the arguments, and each axis that varies. Axes of one name have one range."""

    def __init__(self):
        self.ranges: dict[str, dict[int, tuple[int, int]]] = {}
        self.names: dict[str, dict[int, str]] = {}

    def set(self, path, axis, low, high, name=None):
        self.ranges.setdefault(path, {})[axis] = (low, high)
        if name:
            self.names.setdefault(path, {})[axis] = name

    def copy(self) -> Sizes:
        made = Sizes()
        made.ranges = {path: dict(axes) for path, axes in self.ranges.items()}
        made.names = {path: dict(axes) for path, axes in self.names.items()}
        return made

    def widened(self, call, before) -> Sizes:
        """Ranges that include the sizes of this call too. An axis varies from now on if its size differs from the previous call's. before: that call, or None."""
        made, old = self.copy(), _tensors(before) if before is not None else {}
        for path, value in _tensors(call).items():
            other = old.get(path)
            for axis, size in enumerate(value.shape):
                known = made.ranges.get(path, {}).get(axis)
                if known is None and other is not None and other.dim() == value.dim() and other.shape[axis] != size:
                    known = (other.shape[axis], other.shape[axis])
                if known is not None:
                    made.set(path, axis, min(known[0], size), max(known[1], size))
        made._join()
        return made

    def of(self, call):
        """(least, size, most) of each axis of the call's tensors that has a range."""
        tensors = _tensors(call)
        for path, axes in self.ranges.items():
            for axis, (low, high) in axes.items() if path in tensors else ():
                yield low, tensors[path].shape[axis], high

    def _join(self):
        joint: dict[str, tuple[int, int]] = {}
        named = [(path, axis, name) for path, axes in self.names.items() for axis, name in axes.items()]
        for path, axis, name in named:
            low, high = self.ranges[path][axis]
            lowest, highest = joint.get(name, (low, high))
            joint[name] = (min(low, lowest), max(high, highest))
        for path, axis, name in named:
            self.ranges[path][axis] = joint[name]

    def inputs(self, call):
        """The arguments, with an `ingot.Input` for each tensor that has a varying axis."""

        def given(path, value):
            path = pytree.keystr(path)
            if not isinstance(value, torch.Tensor) or not (axes := self.ranges.get(path)):
                return value
            low, high = list(value.shape), list(value.shape)
            for axis, (lowest, highest) in axes.items():
                low[axis], high[axis] = min(lowest, low[axis]), max(highest, high[axis])
            return Input(min_shape=low, opt_shape=tuple(value.shape), max_shape=high, dtype=value.dtype, device=value.device, shared_dims=self.names.get(path))

        return pytree.tree_map_with_path(given, call)


class MutableModule:
    """A model that is compiled by its first call, and anew when a call or a change asks for it.

    Arguments:
        model: an nn.Module. It stays the owner of its weights: attributes are read from it and written to it, and isinstance(m, type(model)) holds.
        inputs, kwarg_inputs: `ingot.Input`s with the first ranges, in the structure of the arguments. Without them the sizes of the first call are fixed.
        strict: passed to torch.export.
        options, **option: those of `ingot.compile`.

    Calls have the model's arguments and results. The next call sees weights that changed (load_state_dict, another parameter, a write in place) without a build. Other
    changes mean a new build, through this object or on the model itself: another kind of layer or class, a number, text or function (also in a list or a dictionary), a hook, a forward of
    an instance, a device. Attributes of other objects that the model holds are not compared. So do new dtypes, ranks and sizes outside of the range; the range is widened to hold both.
    A call that is wrong in another way raises its InputError, and nothing is built.

    Writes through `.data` in a layer or a method that was asked for through this object are seen if they change one of some 256 elements of a weight, as merged adapters do.

    `compiled` is the `ingot.Module`, None before the first call; `original_model` is the model. Threads may call side by side; one builds at a time.
    """

    _OWN = ("original_model", "compiled", "_options", "_sizes", "_seen", "_strict", "_touched", "_built_from", "_stale", "_adapters", "_building", "_built_for", "_samples", "_attributes")

    def __init__(self, model: torch.nn.Module, inputs=None, *, kwarg_inputs=None, strict=False, options=None, **option):
        self._begin(model, strict, ahead_of_time._merge(options, option))
        flat = pytree.tree_flatten_with_path((tuple(inputs or ()), dict(kwarg_inputs or {})), is_leaf=lambda v: isinstance(v, Input))[0]
        for path, value in flat:
            for axis in range(len(value.min_shape)) if isinstance(value, Input) else ():
                low, _, high = value.range_of(axis)
                if low != high or axis in value.shared_dims:
                    self._sizes.set(pytree.keystr(path), axis, low, high, value.shared_dims.get(axis))

    def _begin(self, model, strict, options):
        if not isinstance(model, torch.nn.Module):
            raise InputError(f"a model is an nn.Module, and this is of type {type(model).__name__}")
        own = dict(original_model=model, compiled=None, _options=options, _sizes=Sizes(), _seen=None, _strict=strict, _touched=False, _built_from=None, _stale=True, _adapters={},
                   _building=processes.Lock(), _built_for=None, _samples={}, _attributes=None)  # fmt: skip
        self.__dict__.update(own)

    # -- attributes of the model

    @property
    def __class__(self):
        return type(self.original_model) if "original_model" in self.__dict__ else type(self)

    def __getattr__(self, name):
        if name in type(self)._OWN:
            raise AttributeError(name)
        value = getattr(self.original_model, name)
        if isinstance(value, torch.nn.Module) or inspect.ismethod(value):
            self._touched = True  # the next call looks for changes
        return value

    def __setattr__(self, name, value):
        if name in type(self)._OWN:
            object.__setattr__(self, name, value)
            return
        setattr(self.original_model, name, value)
        self._changed(weights=isinstance(value, torch.Tensor))

    def __delattr__(self, name):
        delattr(self.original_model, name)
        self._changed(weights=False)

    def __repr__(self):
        return f"{type(self).__name__}({self.original_model!r})"

    def __reduce_ex__(self, protocol):
        from .errors import UnsupportedError

        raise UnsupportedError("a mutable module is neither copied nor pickled", remedy="its save and load keep the model, the options and the ranges")

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Loads a state dict into the model; the next call uses the new weights."""
        found = self.original_model.load_state_dict(state_dict, strict=strict, assign=assign)
        self._changed(weights=True)
        return found

    @property
    def device(self) -> torch.device:
        return next((t.device for t in (*self.original_model.parameters(), *self.original_model.buffers())), torch.device("cpu"))

    def to(self, *args, **kwargs):
        """Moves the model; the next call builds."""
        self.original_model.to(*args, **kwargs)
        self._changed(weights=False)
        return self

    def _changed(self, weights: bool):
        """Notes a write through this object: of a weight, which engines follow, or of something that a build depends on."""
        if not weights:
            self._stale = True

    # -- calls

    def __call__(self, *args, **kwargs):
        if self._touched or self._attributes is not None and self._attributes.changed():
            self._look_for_changes()
        compiled = self.compiled
        if self._stale or compiled is None:
            return self._built(args, kwargs)(*args, **kwargs)
        try:
            made = compiled(*args, **kwargs)
        except InputError as problem:
            built = self._built_for
            if built.compiled is not compiled:
                return self(*args, **kwargs)  # another thread has finished a build meanwhile
            if built.takes((args, kwargs)) and built.weights == _forms_of_weights(self.original_model):
                raise  # it was built for such calls, so another build would change nothing
            log.info("compiled anew: %s", problem.message)
            return self._built(args, kwargs)(*args, **kwargs)
        self._seen = (args, kwargs)
        return made

    forward = __call__

    def add_lora(self, name: str, adapter, *, scale: float = 1.0, config=None):
        """See `ingot.Module.add_lora`. The adapter stays if the model is compiled anew."""
        if name in self._adapters:
            raise InputError(f"there is an adapter {name!r} already", remedy="remove_lora it first, or give this one another name")
        given = (adapter, {"scale": scale, "config": config})
        if self.compiled is not None:
            self._module(self.compiled).add_lora(name, adapter, scale=scale, config=config)
        self._adapters[name] = given

    def remove_lora(self, name: str):
        """See `ingot.Module.remove_lora`."""
        if name not in self._adapters:
            raise InputError(f"there is no adapter {name!r}", remedy="those added are " + (", ".join(self._adapters) or "none"))
        if self.compiled is not None:
            self._module(self.compiled).remove_lora(name)
        del self._adapters[name]

    def _module(self, compiled):
        """The ingot.Module inside `compiled`."""
        return compiled

    def _look_for_changes(self):
        self._touched = False
        if self._built_from is not None and _built_from(self.original_model) != self._built_from:
            self._changed(weights=False)
        self._attributes = _Attributes(self.original_model)
        before, self._samples = self._samples, _samples(self.original_model)
        if found := {key for key, sample in self._samples.items() if key in before and not torch.equal(before[key], sample)}:
            tensor_changes.written(found)
            self._changed(weights=True)

    # -- building

    def _built(self, args, kwargs):
        """A compiled model that covers these arguments too. Another thread may replace it by its own."""
        with self._building():
            before = self._sizes
            self._sizes = sizes = before.widened((args, kwargs), self._seen)
            try:
                made = self._compiled(self._sizes.inputs((args, kwargs)))
            except InputError:
                same, self._sizes, sizes = self._sizes.ranges == before.ranges, before, Sizes()  # the model fixes these sizes
                if same:
                    raise
                made = self._compiled((args, kwargs))
            for name, (adapter, more) in self._adapters.items():
                self._module(made).add_lora(name, adapter, **more)
            self._built_for = _BuiltFor(made, _forms(args, kwargs), {path: tuple(t.shape) for path, t in _tensors((args, kwargs)).items()}, sizes.ranges, _forms_of_weights(self.original_model))
            self.compiled, self._touched, self._stale, self._built_from, self._samples = made, False, False, _built_from(self.original_model), _samples(self.original_model)
            self._seen, self._attributes = (args, kwargs), _Attributes(self.original_model)
            return made

    def _compiled(self, call):
        args, kwargs = call
        return ahead_of_time.compile(self.original_model, arg_inputs=args, kwarg_inputs=kwargs or None, strict=self._strict, options=self._options)

    # -- files

    def save(self, path):
        """Writes the model, the options and the ranges as a pickle. The first call after `load` builds the engines again, or takes them from the cache. Adapters are not kept."""
        content = {"ingot mutable module": 1, "model": self.original_model, "options": self._options, "strict": self._strict, "ranges": self._sizes.ranges, "names": self._sizes.names}
        atomic.write(path, lambda temporary: torch.save(content, temporary))

    @classmethod
    def load(cls, path, *, trust="auto") -> MutableModule:
        """Reads a file that `save` wrote. **A pickle can run any code**, so this needs trust="code": read only files of people you trust."""
        if trust != "code":
            raise torch_archive.needs_code(path, "is a pickle of a model")
        found = torch.load(path, weights_only=False)
        if not isinstance(found, dict) or found.get("ingot mutable module") != 1:
            raise FormatError(f"{path} holds no mutable module", remedy="give a file that MutableModule.save wrote")
        made = cls(found["model"], strict=found["strict"], options=found["options"])
        made._sizes.ranges, made._sizes.names = found["ranges"], found["names"]
        return made


class _Attributes:
    """The attributes of a model's modules as they were. `changed` is asked in each call, so it compares what is the same object first; what differs is compared in full then."""

    def __init__(self, model):
        self._modules = [(m, type(m), [(d, dict(d)) for d in (vars(m), own_children(m), *own_hooks(m))]) for m in model.modules()]
        values = [v for m, *_ in self._modules for k, v in vars(m).items() if k not in _BOOKKEEPING]
        self._containers = [(v, _numbers(v)) for v in values if isinstance(v, (dict, list, set))]

    def changed(self) -> bool:
        try:
            same = all(m.__class__ is kind and all(now == before for now, before in parts) for m, kind, parts in self._modules)
        except (RuntimeError, ValueError):  # another tensor or array, which has no single answer
            return True
        return not same or any(_numbers(value) != before for value, before in self._containers)


class _BuiltFor(NamedTuple):
    """The properties that a build depended on. A call with the same properties gets the same module."""

    compiled: object
    forms: list  # of the arguments
    shapes: dict[str, tuple[int, ...]]  # of the call's tensors
    ranges: dict[str, dict[int, tuple[int, int]]]
    weights: list

    def takes(self, call) -> bool:
        """Whether the module was built for calls like this one, as far as the arguments show."""
        if _forms(*call) != self.forms:
            return False
        for path, tensor in _tensors(call).items():
            for axis, size in enumerate(tensor.shape):
                low, high = self.ranges.get(path, {}).get(axis, (self.shapes[path][axis],) * 2)
                if not low <= size <= high:
                    return False
        return True


def _forms(args, kwargs):
    """The properties of arguments that a build depends on, except sizes: structure, numbers and texts; for tensors dtype, device and order of axes in memory."""
    kinds = [autocast.state(kind) for kind in ("cpu", "cuda")]
    for path, value in pytree.tree_flatten_with_path((args, kwargs))[0]:
        if isinstance(value, torch.Tensor):
            order = sorted(range(value.dim()), key=value.stride) if value.layout is torch.strided else None
            kinds.append((pytree.keystr(path), value.dtype, value.device, value.layout, order))
        else:
            kinds.append((pytree.keystr(path), type(value), value if isinstance(value, _PLAIN) else None))
    return kinds


def _forms_of_weights(model):
    """For each weight and buffer: shape, dtype, device, and which earlier one is the same tensor."""
    first, forms = {}, []
    for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)):
        forms.append((name, tuple(tensor.shape), tensor.dtype, tensor.device, first.setdefault(id(tensor), name)))
    return forms


def _tensors(call):
    return {pytree.keystr(path): v for path, v in pytree.tree_flatten_with_path(call)[0] if isinstance(v, torch.Tensor)}


def _built_from(model):
    """The properties of the model that a build depends on besides the weights: the modules and their numbers, also those in lists and dictionaries."""
    return [(name, type(m), _hooks(m), [(k, now) for k, v in vars(m).items() if k not in _BOOKKEEPING and (now := _numbers(v)) is not _NONE]) for name, m in model.named_modules()]


def _hooks(module) -> list:
    """The hooks around its forward, in order."""
    before, behind = own_hooks(module)
    return [*before.items(), *behind.items()]


def _samples(model) -> dict[int, torch.Tensor]:
    """About 256 elements of each parameter, as bytes. They show writes that torch does not count: PEFT and diffusers merge adapters by `weight.data += ...`."""
    made = {}
    for parameter in model.parameters():
        if type(parameter.data) is torch.Tensor and parameter.layout is torch.strided and not parameter.is_meta and parameter.numel():
            flat = parameter.detach().reshape(-1)
            made[id(parameter)] = flat[:: max(1, len(flat) // 256)].clone().view(torch.uint8)
    return made


_NONE = object()
_BOOKKEEPING = vars(torch.nn.Module()).keys() - {"training"}


class _Itself:
    """A tensor that equals only itself: one that a build took for a constant."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __eq__(self, other):
        return isinstance(other, _Itself) and self._tensor is other._tensor


def _numbers(value, depth=3):
    """A copy of the numbers, texts, functions, tensors and containers of them in a value, to compare with later; _NONE for anything else."""
    if isinstance(value, torch.Tensor):
        return _Itself(value)
    if isinstance(value, dict) and depth:
        return [(k, now) for k, v in value.items() if (now := _numbers(v, depth - 1)) is not _NONE]
    if isinstance(value, (list, tuple)) and depth:
        return [now for v in value if (now := _numbers(v, depth - 1)) is not _NONE]
    if isinstance(value, (set, frozenset)):
        return {v for v in value if isinstance(v, (bool, int, float, str))}
    return value if isinstance(value, (*_PLAIN, *_FUNCTIONS)) and not isinstance(value, tuple) else _NONE
