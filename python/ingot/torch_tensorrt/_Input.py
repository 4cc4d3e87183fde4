"""`torch_tensorrt.Input`, and the conversion of a script's inputs to ingot's."""

from __future__ import annotations

import copy
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum

import torch

from .. import inputs as _inputs
from ..torch_internals.trees import pytree
from ._enums import dtype as _dtype
from ._enums import memory_format as _memory_format
from ._profiles import Profiles
from ._said import log, once

_FIELDS = ("min_shape", "opt_shape", "max_shape")


class Input:
    """One input of a model.

    Give one of: a shape (`Input((1, 3, 224, 224))` or `shape=`); all three of `min_shape`, `opt_shape` and `max_shape`; `profiles`, a list of dictionaries of those
    three; or `torch_tensor`, whose shape, dtype and format are used.

    Arguments:
        shape: sizes. With `shape_ranges=[(min, opt, max), ...]`, as in older scripts, each -1 takes the next range.
        min_shape, opt_shape, max_shape: sizes of equal rank. Namedtuples share the axes of one field name among inputs.
        dtype: of torch, numpy or this package; None is float32 (the tensor's own with torch_tensor).
        format: torch.memory_format or this package's: contiguous, channels_last, channels_last_3d.
        tensor_domain: (low, high), the half-open range of `example_tensor`'s values; (0, 2) otherwise.
        name: used in messages and for the engine's binding.
        torch_tensor: example data. Without it, `torch_tensor` is an example of the usual sizes, made when it is first read.
        is_shape_tensor: the three shapes are ranges of values; the input is a tensor of as many numbers.
        shared_dims: {axis: name}, for inputs with a range; axes of the same name have one size.
        profiles: the range is the union of all profiles; the usual sizes are those of the first.

    `shape` is a tuple, or a dictionary of the three. Unknown keywords are ignored with a warning. Raises ValueError and TypeError as upstream does.
    """

    class _ShapeMode(Enum):
        STATIC = 0
        DYNAMIC = 1

    def __init__(self, *args, shape=None, min_shape=None, opt_shape=None, max_shape=None, dtype=None, format=None, tensor_domain=None, name="", torch_tensor=None,
                 is_shape_tensor=False, shared_dims=None, profiles=None, shape_ranges=None, **unknown):  # fmt: skip
        for word in unknown:
            once(f"Input {word}", f"Input does not know {word!r}, which is ignored", logging.WARNING)
        if len(args) > 1:
            raise ValueError(f"Input takes one shape by position, but {len(args)} were given")
        if args and shape is not None:
            raise ValueError("Input is given a shape twice, by position and by name")
        shape = args[0] if args else shape
        ranged = dict(zip(_FIELDS, (min_shape, opt_shape, max_shape)))
        self.name, self._given, self._example, self.is_shape_tensor = name or "", torch_tensor, None, bool(is_shape_tensor)
        if shape is None and torch_tensor is not None and profiles is None and not any(v is not None for v in ranged.values()):
            shape = tuple(torch_tensor.shape)
        self.profiles = _profiles(profiles, shape, ranged)
        if self.profiles is not None:
            ranged = _union(self.profiles)
        elif shape_ranges is not None and shape is not None:
            shape, ranged = None, _filled(shape, shape_ranges)
        self._set_shape(shape, ranged)
        self.shared_dims = self._shared(shared_dims, ranged)
        self._use_default_dtype = dtype is None and torch_tensor is None
        self.dtype = _dtype._from(dtype if dtype is not None else torch_tensor.dtype if torch_tensor is not None else None, use_default=True)
        if self.dtype is _dtype.unknown:
            self.dtype = _dtype.f32
        self.format = _memory_format._from(format if format is not None else _format_of(torch_tensor))
        self.tensor_domain = _domain(tensor_domain)

    def _set_shape(self, shape, ranged):
        given = [field for field, value in ranged.items() if value is not None]
        if shape is not None:
            if given:
                raise ValueError(f"Input is given both shape and {', '.join(given)}: give one of them")
            self.shape, self.shape_mode = _sizes(shape, "shape"), Input._ShapeMode.STATIC
            return
        if len(given) < 3:
            missing = [field for field in _FIELDS if field not in given]
            raise ValueError(f"Input needs a shape, or all of {', '.join(_FIELDS)}; missing: {', '.join(missing)}")
        self.shape, self.shape_mode = {field: _sizes(value, field) for field, value in ranged.items()}, Input._ShapeMode.DYNAMIC
        if len({len(s) for s in self.shape.values()}) > 1:
            raise ValueError(f"the three shapes of an Input have different ranks: {self.shape}")
        if 0 in self.shape["min_shape"] and not self.is_shape_tensor:
            log.warning("min_shape %s has a size of 0, which is taken as 1", self.shape["min_shape"])
            self.shape["min_shape"] = tuple(max(n, 1) for n in self.shape["min_shape"])

    def _shared(self, given, ranged):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"shared_dims is {given!r}, not a dictionary of axis to name")
        fields = _common_fields(ranged)
        if fields and given:
            raise ValueError("the shapes are namedtuples, whose fields are shared names already: leave shared_dims out")
        if fields:
            return {axis: field for axis, field in enumerate(fields) if self._varies(axis)}
        if not given:
            return {}
        if self.shape_mode is Input._ShapeMode.STATIC:
            raise ValueError(f"shared_dims {given!r} is for inputs with a range, and this one has the shape {self.shape}")
        rank, found = len(self.shape["min_shape"]), {}
        for axis, shared in given.items():
            if isinstance(axis, bool) or not isinstance(axis, int) or not -rank <= axis < rank:
                raise ValueError(f"shared_dims names axis {axis!r}, but the input has rank {rank}")
            if not isinstance(shared, str) or not shared:
                raise ValueError(f"shared_dims[{axis}] is {shared!r}, not a name")
            if not self._varies(axis % rank):
                raise ValueError(f"shared_dims names axis {axis}, which has one size: {self.shape['min_shape'][axis]}")
            found[axis % rank] = shared
        return found

    def _varies(self, axis):
        return self.shape["min_shape"][axis] != self.shape["max_shape"][axis]

    @property
    def torch_tensor(self) -> torch.Tensor:
        if self._given is not None:
            return self._given
        if self._example is None:
            self._example = self.example_tensor() if self.shape_mode is Input._ShapeMode.STATIC else self.example_tensor("opt_shape")
        return self._example

    @torch_tensor.setter
    def torch_tensor(self, value):
        self._given = value

    def example_tensor(self, optimization_profile_field=None) -> torch.Tensor:
        """A tensor with values in tensor_domain. An input with a range needs the field: "min_shape", "opt_shape" or "max_shape"."""
        if self.shape_mode is Input._ShapeMode.STATIC:
            if optimization_profile_field is not None:
                raise ValueError(f"the input has the one shape {self.shape}, so it has no {optimization_profile_field!r}")
            if self._given is not None:
                return self._given
            shape = self.shape
        elif optimization_profile_field not in _FIELDS:
            raise ValueError(f"the input has a range: say which of {', '.join(_FIELDS)}, not {optimization_profile_field!r}")
        else:
            shape = self.shape[optimization_profile_field]
        theirs = self.dtype.to(torch.dtype)
        if self.is_shape_tensor:
            return torch.tensor(shape, dtype=theirs)
        low, high = self.tensor_domain
        made = torch.rand(shape) * (high - low) + low
        return (made.floor() if not theirs.is_floating_point else made).to(theirs)

    @classmethod
    def from_tensor(cls, t: torch.Tensor, disable_memory_format_check=False) -> "Input":
        """An Input of the tensor's shape, dtype and format; the tensor is its example."""
        found = _format_of(t)
        if not disable_memory_format_check and t.dim() and not t.is_contiguous(memory_format=found):
            raise ValueError(f"a tensor of strides {t.stride()} has none of the formats of Input: give tensor.contiguous()")
        return cls(tuple(t.shape), dtype=t.dtype, format=found, torch_tensor=t)

    @classmethod
    def from_tensors(cls, ts, disable_memory_format_check=False) -> list["Input"]:
        return [cls.from_tensor(t, disable_memory_format_check) for t in ts]

    @staticmethod
    def equivalent_spec(a: "Input", b: "Input") -> bool:
        """Whether shapes, dtype, format and domain are the same."""
        return (a.shape, a.profiles, a.dtype, a.format, a.tensor_domain) == (b.shape, b.profiles, b.dtype, b.format, b.tensor_domain)

    def __repr__(self):
        shape = self.shape if self.shape_mode is Input._ShapeMode.STATIC else "min{min_shape}, opt{opt_shape}, max{max_shape}".format(**self.shape)
        more = (f", name={self.name!r}" if self.name else "") + (f", profiles={self.profiles}" if self.profiles is not None else "")
        return f"Input({shape}, {self.dtype.name}, {self.format.name}{more})"


def _sizes(shape, what):
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise TypeError(f"{what} is {shape!r}, not a tuple of sizes")
    return tuple(int(n) for n in shape)


def _filled(shape, ranges):
    """The three shapes of the older spelling: each -1 takes the next range."""
    ranges = list(ranges)
    open_axes = [axis for axis, n in enumerate(shape) if n == -1]
    if len(open_axes) != len(ranges):
        if len(ranges) == 1 and len(ranges[0]) == 3 and isinstance(ranges[0][0], Sequence):
            return dict(zip(_FIELDS, ranges[0]))
        raise ValueError(f"shape {tuple(shape)} has {len(open_axes)} open axes, and shape_ranges has {len(ranges)} ranges")
    if ranges and isinstance(ranges[0][0], Sequence):  # whole shapes
        return dict(zip(_FIELDS, ranges[0]))
    found = {}
    for at, field in enumerate(_FIELDS):
        sizes = dict(zip(open_axes, (r[at] for r in ranges)))
        found[field] = tuple(sizes.get(axis, n) for axis, n in enumerate(shape))
    return found


def _profiles(profiles, shape, ranged):
    if profiles is None:
        return None
    if shape is not None or any(v is not None for v in ranged.values()):
        raise ValueError("profiles say all about the shape: leave shape, min_shape, opt_shape and max_shape out")
    if not profiles:
        raise ValueError("profiles is empty")
    found = []
    for i, profile in enumerate(profiles):
        if set(profile) != set(_FIELDS):
            raise ValueError(f"profile {i} has {sorted(profile)}, and needs {', '.join(_FIELDS)}")
        sizes = {field: _sizes(profile[field], f"profile {i}'s {field}") for field in _FIELDS}
        if len({len(s) for s in (*sizes.values(), *(found[0].values() if found else ()))}) > 1:
            raise ValueError(f"the shapes of profile {i} have another rank than the others: {sizes}")
        for axis, (low, opt, high) in enumerate(zip(*sizes.values())):
            if not 1 <= low <= opt <= high:
                raise ValueError(f"profile {i} has min {low}, opt {opt}, max {high} on axis {axis}; 1 <= min <= opt <= max must hold")
        found.append(sizes)
    return found


def _union(profiles):
    return {
        "min_shape": tuple(map(min, zip(*(p["min_shape"] for p in profiles)))),
        "opt_shape": profiles[0]["opt_shape"],
        "max_shape": tuple(map(max, zip(*(p["max_shape"] for p in profiles)))),
    }


def _common_fields(ranged):
    """The field names of three namedtuples; nothing for plain shapes."""
    named = {field: getattr(shape, "_fields", None) for field, shape in ranged.items()}
    if named["min_shape"] is None:
        return ()
    for field, names in named.items():
        if names is None:
            raise TypeError(f"min_shape is a namedtuple, so {field} must be one of the same fields")
        if names != named["min_shape"]:
            raise ValueError(f"min_shape has the fields {named['min_shape']}, and {field} has {names}")
    return named["min_shape"]


def _domain(given):
    if given is None:
        return (0.0, 2.0)
    numbers = all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in given)
    if len(given) != 2 or not numbers or given[1] <= given[0]:
        raise ValueError(f"tensor_domain is {given!r}; it must be (low, high) with low < high")
    return (float(given[0]), float(given[1]))


def _format_of(tensor):
    """A tensor's memory format."""
    if tensor is not None and not tensor.is_contiguous():
        for known, rank in ((torch.channels_last, 4), (torch.channels_last_3d, 5)):
            if tensor.dim() == rank and tensor.is_contiguous(memory_format=known):
                return known
    return torch.contiguous_format


# ---- as ingot takes it


class Given:
    """The inputs of a call of an entry point. positional: a tuple, or None if there are none. keywords: a dictionary. Leaves are ingot.Inputs, tensors, numbers or None."""

    def __init__(self, inputs=None, arg_inputs=None, kwarg_inputs=None):
        positional = arg_inputs if inputs is None else inputs
        if positional is not None and (not isinstance(positional, Sequence) or isinstance(positional, str)):
            positional = (positional,)
        leaves = _leaves((positional, kwarg_inputs))
        self._names = Counter(leaf.name for leaf in leaves)
        self._opts: dict[str, tuple[int, Input, int]] = {}
        self.profiles = Profiles(positional, kwarg_inputs)
        self.positional = None if positional is None else tuple(self._taken(v) for v in positional)
        self.keywords = {name: self._taken(v) for name, v in dict(kwarg_inputs or {}).items()}

    @property
    def has_tensors(self) -> bool:
        return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves((self.positional, self.keywords), is_leaf=lambda v: isinstance(v, _inputs.Input)))

    def on(self, device: torch.device):
        """Puts examples on a device: tensors of the CPU, and Inputs that name none."""

        def there(value):
            if isinstance(value, torch.Tensor):
                return value.to(device) if value.device.type == "cpu" else value
            made = copy.copy(value)
            made.device = made.device or device
            return made

        is_input = lambda v: isinstance(v, _inputs.Input)  # noqa: E731
        self.positional, self.keywords = pytree.tree_map_only((torch.Tensor, _inputs.Input), there, (self.positional, self.keywords), is_leaf=is_input)

    def complete(self, program):
        """Adds the keyword inputs of an exported program that are not given, as it was exported with them. They may be given by position, after the others."""
        args, own = program.example_inputs or ((), {})
        if self.positional is not None:
            by_name = list(own)[max(0, len(self.positional) - len(args)) :]
            self.keywords = {**{name: own[name] for name in by_name}, **self.keywords}

    def _taken(self, value):
        if isinstance(value, Input):
            return self._input(value)
        if isinstance(value, (list, tuple)):
            made = [self._taken(v) for v in value]
            return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
        if isinstance(value, Mapping):
            return {name: self._taken(v) for name, v in value.items()}
        if value is None or isinstance(value, (torch.Tensor, int, float, bool, complex, str, _inputs.Input)):
            return value
        if hasattr(value, "__array__"):
            return torch.as_tensor(value)
        raise ValueError(f"an input is of type {type(value).__name__}: give an Input, a tensor, a number, None, or a list, tuple or dictionary of these")

    def _input(self, value: Input):
        if value._given is not None and value.shape_mode is Input._ShapeMode.STATIC:
            return value._given
        more = {"dtype": value.dtype.to(torch.dtype), "name": value.name if value.name and self._names[value.name] == 1 else None}
        if value.is_shape_tensor:
            shape = tuple(value._given.shape) if value._given is not None else (len(value.shape["opt_shape"]),) if isinstance(value.shape, dict) else value.shape
            return _inputs.Input(shape, **more)
        more["memory_format"] = value.format.to(torch.memory_format)
        if value.shape_mode is Input._ShapeMode.STATIC:
            return _inputs.Input(value.shape, **more)
        shape, shared = {field: list(sizes) for field, sizes in value.shape.items()}, {}
        for axis, name in value.shared_dims.items():
            shared[axis] = re.sub(r"\W", "_", name if name[0].isalpha() else "_" + name)
            shape["opt_shape"][axis] = self._shared_opt(shared[axis], value, axis)
        return _inputs.Input(**shape, shared_dims=shared, **more)

    def _shared_opt(self, name, value, axis):
        """One usual size for a shared name: that of the first input. All inputs need the same limits."""
        span = lambda i, at: (i.shape["min_shape"][at], i.shape["max_shape"][at])  # noqa: E731
        opt, first, first_axis = self._opts.setdefault(name, (value.shape["opt_shape"][axis], value, axis))
        if span(first, first_axis) != span(value, axis):
            raise ValueError(f"shared dimension {name!r} is {span(first, first_axis)} on axis {first_axis} of {first}, but {span(value, axis)} on axis {axis} of {value}")
        return opt


def _leaves(value) -> list[Input]:
    if isinstance(value, Input):
        return [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return [leaf for v in inner for leaf in _leaves(v)]
