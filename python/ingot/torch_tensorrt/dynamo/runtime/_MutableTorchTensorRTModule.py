"""`MutableTorchTensorRTModule`: `ingot.MutableModule` with upstream's names and settings."""

from __future__ import annotations

import enum
import inspect

import torch

from ....errors import InputError
from ....mutable import MutableModule, Sizes
from ....torch_internals.trees import pytree
from ..._errors import CallError
from ..._Input import Given
from ...runtime import weight_streaming
from .._compiler import compiled
from .._settings import ROWS, Settings, module_name, operator_name

_OPEN = 4096  # the largest size of an axis that Dim.AUTO leaves open


class RefitFlag(enum.Enum):
    """What the next call does first. UNKNOWN and NEEDS_RECOMPILE build. NEEDS_REFIT and LIVE do not, because engines follow the model's weights."""

    UNKNOWN = enum.auto()
    NEEDS_REFIT = enum.auto()
    NEEDS_RECOMPILE = enum.auto()
    LIVE = enum.auto()


class RefitState:
    def __init__(self):
        self._state = RefitFlag.NEEDS_RECOMPILE

    def set_state(self, state: RefitFlag):
        self._state = state

    def get_state(self) -> RefitFlag:
        return self._state


class MutableTorchTensorRTModule(MutableModule):
    """A model that is compiled when it is first called.

    Arguments:
        pytorch_model: an nn.Module. It stays the owner of its weights: attributes are read from it and written to it.
        device: see `torch_tensorrt.Device`.
        immutable_weights: True is a CallError, because the module exists to change them.
        strict: passed to torch.export.
        weight_streaming_budget: the `device_budget` of `torch_tensorrt.runtime.weight_streaming`, set whenever the model is compiled.
        settings: those of `torch_tensorrt.compile`.

    Calls have the model's arguments and results; see `ingot.MutableModule`. `compiled` is the GraphModule, `original_model` the model, `refit_state` says what the next call does.
    `arg_dynamic_shapes` and `kwarg_dynamic_shapes` are what `set_expected_dynamic_shape_range` was given, None once a call went beyond it.
    """

    _OWN = (*MutableModule._OWN, "refit_state", "settings", "weight_streaming_budget", "arg_dynamic_shapes", "kwarg_dynamic_shapes", "_hinted")

    def __init__(self, pytorch_model: torch.nn.Module, *, device=None, immutable_weights=False, strict=True, prefer_deferred_runtime_asserts_over_guards=False, weight_streaming_budget=None,
                 **settings):  # fmt: skip
        if immutable_weights:
            raise CallError("immutable_weights=True is given to a MutableTorchTensorRTModule", remedy="leave it out, or use torch_tensorrt.compile")
        settings = {**settings, "device": device, "immutable_weights": False}
        Settings(settings).options()  # refuses invalid settings
        self._begin(pytorch_model, strict, {})
        self.refit_state, self.settings, self.weight_streaming_budget = RefitState(), settings, weight_streaming_budget
        self.arg_dynamic_shapes = self.kwarg_dynamic_shapes = self._hinted = None

    def _changed(self, weights):
        super()._changed(weights)
        self.refit_state.set_state(RefitFlag.NEEDS_REFIT if weights else RefitFlag.NEEDS_RECOMPILE)

    def __call__(self, *args, **kwargs):
        if self.refit_state.get_state() in (RefitFlag.UNKNOWN, RefitFlag.NEEDS_RECOMPILE):
            self._stale = True
        made = super().__call__(*args, **kwargs)
        self.refit_state.set_state(RefitFlag.LIVE)
        return made

    forward = __call__

    def compile(self):
        """Builds for the inputs of the last call."""
        if self._seen is None:
            raise InputError("the module was not called yet, so its inputs are not known", remedy="call it; that compiles it")
        self._built(*self._seen)
        self.refit_state.set_state(RefitFlag.LIVE)

    def refit_gm(self):
        """Brings the model's weights to the engines now; otherwise the next call does."""
        if self.compiled is not None:
            self._module(self.compiled)._kind.follow()
            self.refit_state.set_state(RefitFlag.LIVE)

    def update_refit_condition(self):
        """Looks for changes now; otherwise the next call does."""
        self._look_for_changes()

    def set_expected_dynamic_shape_range(self, args_dynamic_shape: tuple, kwargs_dynamic_shape: dict):
        """Sets the sizes that vary, as torch.export takes them: {axis: torch.export.Dim} for each argument, in the structure of the arguments. The next call builds.
        Raises CallError (an AssertionError) for other structures."""
        if not isinstance(args_dynamic_shape, (tuple, list, type(None))) or not isinstance(kwargs_dynamic_shape, (dict, type(None))):
            raise CallError("the sizes of positional arguments are a tuple, those of keyword arguments a dictionary", remedy='set_expected_dynamic_shape_range(({0: torch.export.Dim("B", min=1, max=8)},), {})')
        self._sizes, self.arg_dynamic_shapes, self.kwarg_dynamic_shapes = Sizes(), args_dynamic_shape, kwargs_dynamic_shape
        flat, _ = pytree.tree_flatten_with_path((tuple(args_dynamic_shape or ()), dict(kwargs_dynamic_shape or {})), is_leaf=_is_dims)
        for path, dims in flat:
            for axis, dim in dims.items() if isinstance(dims, dict) else ():
                self._sizes.set(pytree.keystr(path), axis, *_range_of(dim))
        self._hinted = self._sizes.copy()
        self._changed(weights=False)

    def set_weight_streaming_ctx(self, requires_dynamic_shape=False):
        """Sets weight_streaming_budget for what is compiled now."""
        if self.compiled is not None:
            _set_budget(self.compiled, self.weight_streaming_budget)

    def _validate_inputs(self, *args, **kwargs):
        """Sets refit_state to NEEDS_RECOMPILE if a call with these arguments would build. A call finds that out by itself."""
        self._forget_hints_beyond(args, kwargs)
        if self.compiled is None or not self._built_for.takes((args, kwargs)):
            self.refit_state.set_state(RefitFlag.NEEDS_RECOMPILE)

    def _forget_hints_beyond(self, args, kwargs):
        if self._hinted is not None and any(not low <= size <= high for low, size, high in self._hinted.of((args, kwargs))):
            self.arg_dynamic_shapes = self.kwarg_dynamic_shapes = self._hinted = None

    @staticmethod
    def _check_inputs_shape(one, other, dynamic_shapes=None) -> bool:
        """Whether two sets of arguments have the same structure and types, and sizes that differ only on the axes that dynamic_shapes opens, within their ranges."""
        ranges = {pytree.keystr(path): dims for path, dims in pytree.tree_flatten_with_path(dynamic_shapes, is_leaf=_is_dims)[0] if isinstance(dims, dict)}
        (flat, spec), (others, other_spec) = pytree.tree_flatten_with_path(one), pytree.tree_flatten_with_path(other)
        return spec == other_spec and all(_alike(a, b, ranges.get(pytree.keystr(path), {})) for (path, a), (_, b) in zip(flat, others))

    @staticmethod
    def _process_kwarg_inputs(inputs):
        """Arguments with tensors in the place of numbers. A ValueError for what is neither a tensor, a number, a text nor None."""
        return pytree.tree_map(_as_tensor, inputs)

    def _built(self, args, kwargs):
        self._forget_hints_beyond(args, kwargs)
        return super()._built(args, kwargs)

    def _module(self, compiled):
        return compiled.ingot_module

    def _compiled(self, call):
        args, kwargs = call
        made = compiled(self.original_model, Given(None, args, kwargs), Settings(self.settings), strict=self._strict)
        _set_budget(made, self.weight_streaming_budget)
        return made

    @staticmethod
    def save(module: "MutableTorchTensorRTModule", path: str):
        """Writes the model, its settings and ranges as a pickle. The first call after `load` builds the engines again."""
        settings = {n: _plain(n, v) for n, v in module.settings.items()}
        settings["weight_streaming_budget"] = module.weight_streaming_budget
        torch.save({"model": module.original_model, "settings": settings, "ranges": module._sizes.ranges, "names": module._sizes.names, "strict": module._strict}, path)

    @staticmethod
    def load(path: str) -> "MutableTorchTensorRTModule":
        """Reads a file that `save` wrote. **A pickle can run any code**: read only files of people you trust."""
        found = torch.load(path, weights_only=False)
        made = MutableTorchTensorRTModule(found["model"], strict=found["strict"], **found["settings"])
        made._sizes.ranges, made._sizes.names = found["ranges"], found["names"]
        return made


def _set_budget(made, budget):
    if budget is not None:
        weight_streaming(made).device_budget = budget


def _is_dims(value):
    return value is None or isinstance(value, dict) and bool(value) and all(isinstance(axis, int) for axis in value)


def _alike(one, other, dims) -> bool:
    if type(one) is not type(other):
        return False
    if not isinstance(one, torch.Tensor):
        return one == other
    if one.dtype != other.dtype or one.dim() != other.dim():
        return False
    return all(a == b or axis in dims and _range_of(dims[axis])[0] <= b <= _range_of(dims[axis])[1] for axis, (a, b) in enumerate(zip(one.shape, other.shape)))


def _as_tensor(value):
    if value is None or isinstance(value, (torch.Tensor, str)):
        return value
    if isinstance(value, (bool, int, float)):
        return torch.tensor(value)
    raise InputError(f"an argument is of type {type(value).__name__}, which is neither a tensor nor a number")


def _range_of(dim):
    """Least, most and name of a torch.export.Dim, a hint or a number."""
    if isinstance(dim, int):
        return dim, dim, None
    low, high = getattr(dim, "min", None), getattr(dim, "max", None)
    high = None if high is None or high > 2**31 else high
    name = getattr(dim, "__name__", None) if inspect.isclass(dim) or type(dim).__name__ == "Dim" else None
    return max(low or 1, 1), high or _OPEN, name


def _plain(name, value):
    """A setting as a file keeps it."""
    if name == "torch_executed_ops":
        return [operator_name(v) for v in value]
    if name == "torch_executed_modules":
        return [module_name(v) for v in value]
    if name == "device" and value is not None:
        return str(value) if not hasattr(value, "gpu_id") else "cpu" if value.gpu_id < 0 else f"cuda:{value.gpu_id}"
    return ROWS[name].initial if name in ROWS and callable(value) else value
