"""ctypes over include/ingot/ingot.h. Needs neither torch nor numpy to load; arrays come through numpy or DLPack-like objects."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import json
import os
import sys
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from . import atomic, errors, plan_signature, processes
from .errors import DeviceError, InputError, IoError, OptionError, UnsupportedError

_HERE = Path(__file__).resolve().parent
_lock = processes.Lock()
_lib = None


def find(name: str) -> str:
    """Path of one of ingot's libraries: beside this file (wheel), in $INGOT_LIBRARY_DIR, or in a build folder of the repository."""
    folders = [os.environ.get("INGOT_LIBRARY_DIR"), _HERE / "lib", _HERE.parents[1] / "build" / "release"]
    for folder in folders:
        if folder:
            for path in (Path(folder) / name, Path(folder) / "lib" / name):
                if path.exists():
                    return str(path)
    raise IoError(f"{name} was not found", remedy="build it (`make build`), install the wheel, or set INGOT_LIBRARY_DIR to its folder")


class _Error(ctypes.Structure):
    _fields_ = [("status", c_int), ("message", c_char_p), ("origin", c_char_p), ("remedy", c_char_p)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("rank", c_int32), ("dims", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class _WeightSource(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t), ("strides", POINTER(c_int64))]


_Changed = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)
_Progress = ctypes.CFUNCTYPE(c_int, c_char_p, c_double, c_void_p)
# In the order of ingot_dtype.
_DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]

TRUST = {"auto": 0, "data": 1, "code": 2}  # as ingot_trust

_SIGNATURES = {
    "ingot_options_create": [POINTER(c_void_p)],
    "ingot_options_set": [c_void_p, c_char_p, c_char_p],
    "ingot_options_describe": [POINTER(c_void_p)],
    "ingot_set_library_folders": [POINTER(c_char_p), c_size_t],
    "ingot_describe_machine": [POINTER(c_void_p)],
    "ingot_measure_machine": [c_int32, c_double, POINTER(c_void_p)],
    "ingot_ops_describe": [POINTER(c_void_p)],
    "ingot_model_open": [c_char_p, POINTER(c_void_p)],
    "ingot_model_from_memory": [c_char_p, c_size_t, POINTER(_WeightSource), c_size_t, POINTER(c_void_p)],
    "ingot_model_set_dim": [c_void_p, c_char_p, c_int64, c_int64, c_int64, c_int64, c_char_p],
    "ingot_model_set_signature": [c_void_p, c_char_p],
    "ingot_model_describe": [c_void_p, POINTER(c_void_p)],
    "ingot_explain": [c_void_p, c_void_p, POINTER(c_void_p)],
    "ingot_compile": [c_void_p, c_void_p, _Progress, c_void_p, POINTER(c_void_p)],
    "ingot_plan_load_with": [c_char_p, c_int, c_int, POINTER(c_void_p)],
    "ingot_plan_load_memory_with": [c_void_p, c_size_t, c_int, POINTER(c_void_p)],
    "ingot_plan_save": [c_void_p, c_char_p],
    "ingot_plan_write": [c_void_p, c_int, POINTER(c_void_p), POINTER(c_size_t)],
    "ingot_plan_part": [c_void_p, c_uint32, POINTER(c_void_p)],
    "ingot_plan_with_weights": [c_void_p, POINTER(_WeightSource), c_size_t, POINTER(c_void_p)],
    "ingot_plan_verify": [c_void_p],
    "ingot_plan_describe": [c_void_p, POINTER(c_void_p)],
    "ingot_plan_graph": [c_void_p, c_uint32, POINTER(c_void_p)],
    "ingot_plan_reference": [c_void_p, c_uint32, POINTER(_Tensor), c_size_t, POINTER(_Tensor), c_size_t],
    "ingot_plan_verify_steps": [c_void_p, c_uint32, c_void_p, POINTER(_Tensor), c_size_t, c_double, c_int, POINTER(c_void_p)],
    "ingot_weights_create": [c_void_p, c_void_p, POINTER(c_void_p)],
    "ingot_weights_device": [c_void_p, POINTER(c_int32)],
    "ingot_weights_set": [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(c_int64), c_int],
    "ingot_weights_commit": [c_void_p],
    "ingot_session_create": [c_void_p, c_void_p, c_uint32, c_void_p, POINTER(c_void_p)],
    "ingot_session_resolve": [c_void_p, POINTER(_Tensor), c_size_t],
    "ingot_session_output": [c_void_p, c_size_t, POINTER(c_int32), POINTER(POINTER(c_int64))],
    "ingot_session_state": [c_void_p, c_size_t, c_void_p, c_size_t, c_int],
    "ingot_session_reset": [c_void_p],
    "ingot_session_profile": [c_void_p, c_int, POINTER(c_void_p)],
    "ingot_session_run_with": [c_void_p, POINTER(_Tensor), c_size_t, POINTER(_Tensor), c_size_t],
}
_RELEASES = ["options", "model", "plan", "weights", "session"]


def lib():
    """The library, loaded once."""
    global _lib
    if _lib is None:
        with _lock():
            if _lib is None:
                loaded = ctypes.CDLL(find("libingot.so"), mode=ctypes.RTLD_GLOBAL)
                for name, arguments in _SIGNATURES.items():
                    function = getattr(loaded, name)
                    function.argtypes, function.restype = arguments, c_int
                for name in _RELEASES:
                    function = getattr(loaded, f"ingot_{name}_release")
                    function.argtypes, function.restype = [c_void_p], None
                loaded.ingot_last_error.argtypes, loaded.ingot_last_error.restype = [], POINTER(_Error)
                for release in (loaded.ingot_string_release, loaded.ingot_bytes_release):
                    release.argtypes, release.restype = [c_void_p], None
                # pip's packages of NVIDIA's libraries, when the system has none.
                folders = [os.fsencode(p) for p in sys.path if p.endswith("-packages")]
                loaded.ingot_set_library_folders((c_char_p * max(len(folders), 1))(*folders), len(folders))
                _lib = loaded
    return _lib


def check(status: int):
    """Raises the error of the last call when it failed."""
    if status == 0:
        return
    error = lib().ingot_last_error().contents
    raise errors.by_code(status, *(text.decode(errors="backslashreplace") for text in (error.message, error.origin, error.remedy)))  # a path may be any bytes


class _Handle:
    """An opaque handle of the C API, released with its owner."""

    kind = ""

    def __init__(self, pointer: c_void_p):
        self._pointer = pointer

    @property
    def pointer(self) -> c_void_p:
        return self._pointer

    def __del__(self):
        pointer, self._pointer = getattr(self, "_pointer", None), None
        if pointer and _lib is not None:
            getattr(_lib, f"ingot_{self.kind}_release")(pointer)


def _text(function, *arguments) -> str:
    out = c_void_p()
    check(function(*arguments, byref(out)))
    try:
        return ctypes.string_at(out).decode()
    finally:
        lib().ingot_string_release(out)


def options() -> list[dict]:
    """The table of options: name, type, default, kind (partition, plan, build or session) and meaning of each."""
    return json.loads(_text(lib().ingot_options_describe))


def ops() -> list[dict]:
    """The operator table: name, family and parameters of each overload."""
    return json.loads(_text(lib().ingot_ops_describe))


def machine() -> dict:
    """Instruction set, threads, version, GPUs, and of the driver and NVIDIA's libraries the path or what to do."""
    return json.loads(_text(lib().ingot_describe_machine))


class _Options(_Handle):
    kind = "options"

    def __init__(self, values: dict):
        out = c_void_p()
        check(lib().ingot_options_create(byref(out)))
        super().__init__(out)
        for name, value in values.items():
            text = str(value).lower() if isinstance(value, bool) else ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)
            check(lib().ingot_options_set(out, str(name).encode(), text.encode()))


def _session_options(values: dict) -> _Options:
    made = _Options(values)  # refuses unknown names and bad values
    for option in options():
        if option["name"] in values and option["kind"] != "session":
            raise OptionError(f"option {option['name']!r} is for compiling, not for running", remedy="give it to ingot.compile")
    return made


class Model(_Handle):
    """A captured graph inside the library."""

    kind = "model"

    def __init__(self, pointer, keep=()):
        super().__init__(pointer)
        self._keep = keep

    @classmethod
    def from_json(cls, text: bytes, weights) -> "Model":
        table = (_WeightSource * max(len(weights), 1))()
        for entry, (name, tensor) in zip(table, weights):
            entry.name, entry.data, entry.bytes = name.encode(), tensor.data_ptr(), tensor.numel() * tensor.element_size()
        out = c_void_p()
        check(lib().ingot_model_from_memory(text, len(text), table, len(weights), byref(out)))
        return cls(out, [tensor for _, tensor in weights])

    @classmethod
    def open(cls, path: str) -> "Model":
        out = c_void_p()
        check(lib().ingot_model_open(atomic.encoded(path), byref(out)))
        return cls(out)

    def set_dim(self, name, axis, low, opt, high, shared):
        check(lib().ingot_model_set_dim(self.pointer, name.encode(), axis, low, opt, high, (shared or "").encode()))

    def set_signature(self, text: str):
        check(lib().ingot_model_set_signature(self.pointer, text.encode()))

    def describe(self) -> dict:
        return json.loads(_text(lib().ingot_model_describe, self.pointer))

    def input_names(self) -> list[str]:
        return [i["name"] for i in self.describe()["inputs"]]

    def explain(self, values: dict) -> dict:
        given = _Options(values)
        return json.loads(processes.interruptible(lambda: _text(lib().ingot_explain, self.pointer, given.pointer)))

    def compile(self, values: dict, progress=None) -> "_Plan":
        given = _Options(values)
        out = c_void_p()
        cancelled = []

        def report(stage, fraction, _):
            return int(bool(cancelled or progress is not None and progress(stage.decode(), fraction)))

        callback = _Progress(report)
        processes.interruptible(lambda: check(lib().ingot_compile(self.pointer, given.pointer, callback, None, byref(out))), lambda: cancelled.append(True))
        session = {o["name"] for o in options() if o["kind"] == "session"}
        return _Plan(out, {k: v for k, v in values.items() if k in session})


class _Plan(_Handle):
    kind = "plan"

    def __init__(self, pointer, session_options=None):
        super().__init__(pointer)
        self.session_options = session_options or {}

    def describe(self) -> dict:
        return json.loads(_text(lib().ingot_plan_describe, self.pointer))

    def part(self, function: int) -> "_Plan":
        """The plan of one function alone, with the weights that it needs."""
        out = c_void_p()
        check(lib().ingot_plan_part(self.pointer, function, byref(out)))
        return _Plan(out)

    def with_weights(self, values: dict) -> "_Plan":
        """The same plan with other values (dense; not copied where they lie as the weights do) for some of its weights."""
        table = (_WeightSource * max(len(values), 1))()
        for entry, (name, value) in zip(table, values.items()):
            entry.name, (entry.data, entry.bytes, entry.strides) = name.encode(), _memory(value)
        out = c_void_p()
        check(lib().ingot_plan_with_weights(self.pointer, table, len(values), byref(out)))
        made = _Plan(out, self.session_options)
        made._keep = (self, values)
        return made

    def bytes(self, values: bool) -> bytes:
        """The plan as a file holds it, with or without the values of its weights."""
        out, count = c_void_p(), c_size_t()
        check(lib().ingot_plan_write(self.pointer, values, byref(out), byref(count)))
        try:
            return ctypes.string_at(out, count.value)
        finally:
            lib().ingot_bytes_release(out)


class Engine:
    """An immutable compiled model; threads share it. Works without torch, on numpy arrays.

    device: "cpu" or "cuda:0"; None when it was compiled for a GPU elsewhere, to be saved and not to run. watch: where its weights are torch's tensors,
    the `watch.Watch` of them.
    """

    watch = None

    def __init__(self, plan: _Plan, keep=(), values=None, here=True):
        self._plan, self._keep = plan, list(keep)
        self._built_from: dict = values or {}  # tensors that the plan points at, by name
        self.given: dict = {}  # what load_engine was given, by name
        self._values: dict = {}  # weights given since, by name: the library reads them where they are
        self._options = _Options(plan.session_options)
        self._description = None
        self._weights = self.device = None
        if here:
            self._place()

    def _place(self):
        out, gpu = c_void_p(), c_int32()
        check(lib().ingot_weights_create(self._plan.pointer, self._options.pointer, byref(out)))
        self._weights = _WeightsHandle(out)
        check(lib().ingot_weights_device(out, byref(gpu)))
        self.device = "cpu" if gpu.value < 0 else f"cuda:{gpu.value}"

    @property
    def targets(self) -> str:
        """What it was compiled for: "cpu", "cuda:sm_90", or several with commas."""
        return self.inspect()["provenance"].get("target", "")

    def not_here(self) -> DeviceError:
        return DeviceError(
            f"the model is on the CPU, and was compiled for {self.targets}: it cannot run here",
            remedy=f'ingot.save it, and ingot.load the file where the GPU is; target="cpu,{self.targets}" for a module that runs here too',
        )

    def inspect(self) -> dict:
        """Functions with their bindings, sizes and steps, weights and provenance."""
        if self._description is None:
            self._description = self._plan.describe()
        return self._description

    @property
    def graph(self) -> str:
        """The portable graph the plan was made from, as text."""
        return _text(lib().ingot_plan_graph, self._plan.pointer, 0)

    @functools.cached_property
    def signature(self) -> dict:
        """What Python left in the plan."""
        return plan_signature.read(self.inspect()["signature"])

    @property
    def tied(self) -> dict[str, str]:
        """Other state-dict names of weights, and the engine's names of them."""
        others = {w["tied_to"]: w["name"] for w in self.inspect()["weights"] if w["tied_to"]}
        return {**others, **self.signature.get("tied", {})}

    @property
    def functions(self) -> list[str]:
        return [f["name"] for f in self.inspect()["functions"]]

    def inputs(self, function: int = 0) -> list[dict]:
        """Name, dtype and dims (numbers, or text for dynamic sizes) of every input."""
        return self.inspect()["functions"][function]["inputs"]

    def outputs(self, function: int = 0) -> list[dict]:
        return self.inspect()["functions"][function]["outputs"]

    def symbols(self, function: int = 0) -> dict[str, dict]:
        """By name: min, opt and max of every dynamic size, and where it comes from: (size of `axis` of input number `input` - `offset`) / `factor`."""
        return {s["name"]: s for s in self.inspect()["functions"][function]["symbols"]}

    def states(self, function: int = 0) -> list[dict]:
        """Name, dtype and dims of every buffer that the function writes."""
        return self.inspect()["functions"][function]["states"]

    @property
    def input_names(self) -> list[str]:
        return [b["name"] for b in self.inputs()]

    @property
    def output_names(self) -> list[str]:
        return [b["name"] for b in self.outputs()]

    def _readable_plan(self) -> _Plan:
        """The plan with the weights it has now, in memory of the host."""
        self.follow()
        built_from = {w["name"]: self._built_from[w["name"]] for w in self.inspect()["weights"] if getattr(self._built_from.get(w["name"]), "is_cuda", False)}
        values = {**built_from, **self._values}
        return self._plan.with_weights(_on_host(values)) if values else self._plan

    def follow(self):
        """Takes what has changed in torch's tensors that its weights are."""
        if self.watch is not None:
            self.watch.follow()

    def save(self, path, *, weights=None):
        """Writes the plan, atomically. weights: "embed" with the values they have now, "strip" without them (`load_engine(path, weights=...)` takes them),
        None as the option `weights` said when it was compiled."""
        if "refused" in self.signature:
            message, remedy = self.signature["refused"]
            raise UnsupportedError(message, remedy=remedy)
        plan = self._readable_plan()
        if weights in (None, self.inspect()["provenance"].get("weights", "embed")):
            check(lib().ingot_plan_save(plan.pointer, atomic.encoded(path)))
        else:
            atomic.write_bytes(path, plan.bytes(weights == "embed"))

    def update_weights(self, state_dict, *, strict=True):
        """Replaces weights by state-dict name: torch tensors or numpy arrays of the same dtype and shape, which it reads where they are: keep what is there.
        A module's engine notices what torch counts as a write to them."""
        self.follow()
        taken = self.replace(state_dict, strict=strict)
        if self.watch is not None:
            self.watch.taken(taken)

    def replace(self, state_dict, *, strict=True) -> dict:
        """The same for whoever watches the weights. Gives those that it has, by its names of them."""
        by_name(state_dict)
        weights = {w["name"]: w for w in self.inspect()["weights"]}
        tied = self.tied
        staged, taken = [], {}
        for name, value in state_dict.items():
            name = name if name in weights else tied.get(name, name)
            if name not in weights:
                if strict and name not in self.signature.get("unused", ()):
                    raise InputError(f"the engine has no weight {name!r}")
                continue
            taken[name] = value
            value = _fitting(value, weights[name])
            staged.append((name, value.cpu() if self.device in ("cpu", None) and getattr(value, "is_cuda", False) else value))
        if self._weights is not None:
            for name, value in staged:
                check(lib().ingot_weights_set(self._weights.pointer, name.encode(), *_memory(value), 0))
            check(lib().ingot_weights_commit(self._weights.pointer))
        self._values.update(staged)
        return taken

    def session(self, function: int = 0, **runtime_option) -> "Session":
        """A session: one caller at a time."""
        if function not in range(len(self.functions)):
            raise InputError(f"there is no function {function!r}: the plan has {len(self.functions)}, counted from 0")
        return Session(self, function, runtime_option)

    def reference(self, *arrays):
        """The plan's graph run by the reference interpreter, on numpy arrays."""
        import numpy as np

        session = self.session()
        inputs = (_Tensor * max(len(arrays), 1))()
        keep = [_fill(t, _native(np.asarray(a)), b, "input") for t, a, b in zip(inputs, arrays, self.inputs())]
        made = session._outputs(inputs, len(arrays))
        outputs = (_Tensor * max(len(made), 1))()
        keep += [_fill(t, a, b, "output") for t, a, b in zip(outputs, made, self.outputs())]
        plan = self._readable_plan()
        check(lib().ingot_plan_reference(plan.pointer, 0, inputs, len(arrays), outputs, len(made)))
        del keep, plan
        return made


def by_name(weights):
    """InputError for what is no state dict."""
    if not isinstance(weights, Mapping):
        raise InputError(f"weights are given by name, and this is of type {type(weights).__name__}", remedy="give model.state_dict()")


def _fitting(value, weight: dict):
    """The value of a weight as a plan describes it, as it lies there."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise InputError(f"weight {weight['name']!r} is of type {type(value).__name__}, and has to be a tensor or an array")
    have = (str(value.dtype).removeprefix("torch."), list(value.shape))
    if have != (weight["dtype"], weight["dims"]):
        raise InputError(f"weight {weight['name']!r} is {have[0]} {have[1]}, but the engine was built for {weight['dtype']} {weight['dims']}")
    if not hasattr(value, "data_ptr"):
        return lying(value, weight.get("order"))
    from .plain import why_not

    if why := why_not(value, weight["name"]):
        raise InputError(f"weight {weight['name']!r} {why[0]}", remedy=why[1])
    return lying(value.detach(), weight.get("order"))


def lying(value, order):
    """The tensor or array, dense with its axes from outermost to innermost in memory in this order (None: row-major); itself where it is so."""
    if not hasattr(value, "data_ptr"):
        import numpy as np

        return np.ascontiguousarray(value) if order is None else np.ascontiguousarray(value.transpose(order)).transpose(np.argsort(order))
    value = value.resolve_neg()  # the memory of a negative view holds other numbers
    if order is None:
        return value.contiguous()
    return value.permute(order).contiguous().permute([order.index(axis) for axis in range(len(order))])


def _on_host(values: dict) -> dict:
    """The tensors by name, those on a GPU copied from there; what shares memory goes on sharing it."""
    copies: dict = {}
    return {n: copies.setdefault((t.data_ptr(), t.shape, t.stride()), t.cpu()) if getattr(t, "is_cuda", False) else t for n, t in values.items()}


def _memory(value):
    """Address, bytes and strides of a dense tensor or array."""
    if hasattr(value, "data_ptr"):
        strides, at, size = value.stride(), value.data_ptr(), value.numel() * value.element_size()
    else:
        strides, at, size = [s // value.itemsize for s in value.strides], value.ctypes.data, value.nbytes
    return at, size, (c_int64 * max(len(strides), 1))(*strides)


class _WeightsHandle(_Handle):
    kind = "weights"


def _numpy_type(name):
    import numpy as np

    return np.dtype("uint16" if name == "bfloat16" else name)


def _native(array):
    """The array in this machine's byte order, its strides whole elements."""
    if array.dtype.isnative and not any(s % array.itemsize for s in array.strides):
        return array
    return array.astype(array.dtype.newbyteorder("="), order="C")


def _fill(tensor: _Tensor, array, binding: dict, what: str):
    """Points a C tensor at a numpy array; returns what must stay alive."""
    dtype = array.dtype.name
    if dtype == "uint16" and binding["dtype"] == "bfloat16":
        dtype = "bfloat16"
    if dtype not in _DTYPES:
        raise InputError(f"{what} {binding['name']!r} is {dtype}, but the engine takes {binding['dtype']}", remedy=f"convert it to {binding['dtype']}")
    rank = array.ndim
    dims = (c_int64 * max(rank, 1))(*array.shape)
    strides = (c_int64 * max(rank, 1))(*(s // array.itemsize for s in array.strides))
    tensor.data, tensor.dtype, tensor.rank = array.ctypes.data, _DTYPES.index(dtype), rank
    tensor.dims, tensor.strides = ctypes.cast(dims, POINTER(c_int64)), ctypes.cast(strides, POINTER(c_int64))
    return array, dims, strides


class Session(_Handle):
    """Runs one function of an engine on numpy arrays (bfloat16 as uint16)."""

    kind = "session"

    def __init__(self, engine: Engine, function: int, runtime_option: dict):
        out = c_void_p()
        if engine._weights is None:
            raise engine.not_here()
        self._engine, self._function = engine, function
        self._options = _session_options({**engine._plan.session_options, **runtime_option})
        check(lib().ingot_session_create(engine._plan.pointer, engine._weights.pointer, function, self._options.pointer, byref(out)))
        super().__init__(out)

    def _outputs(self, inputs, count):
        import numpy as np

        check(lib().ingot_session_resolve(self.pointer, inputs, count))
        made = []
        for i, binding in enumerate(self._engine.outputs(self._function)):
            rank, dims = c_int32(), POINTER(c_int64)()
            check(lib().ingot_session_output(self.pointer, i, byref(rank), byref(dims)))
            made.append(np.empty([dims[d] for d in range(rank.value)], _numpy_type(binding["dtype"])))
        return made

    def run(self, *arrays, out=None):
        """Runs on arrays in the order of the engine's inputs; returns the list of outputs (`out` when given).

        An array that the model writes (`written` in the engine's inputs) is changed in place. States are the session's own.
        """
        import numpy as np

        self._engine.follow()
        bindings = self._engine.inputs(self._function)
        for array, binding in zip(arrays, bindings):
            if binding.get("written") and not (isinstance(array, np.ndarray) and array.flags.writeable and _native(array) is array):
                raise InputError(f"the model writes input {binding['name']!r}, which is no writeable array in this machine's byte order")
        inputs = (_Tensor * max(len(arrays), 1))()
        keep = [_fill(t, _native(np.asarray(a)), b, "input") for t, a, b in zip(inputs, arrays, bindings)]
        made = self._outputs(inputs, len(arrays)) if out is None else list(out)
        for array, binding in zip(made, self._engine.outputs(self._function)):
            if not isinstance(array, np.ndarray):
                raise InputError(f"what is given for output {binding['name']!r} is of type {type(array).__name__}, and has to be a numpy array")
            if not (array.flags.writeable and array.dtype.isnative):
                raise InputError(f"the array given for output {binding['name']!r} is read-only or in another byte order")
        outputs = (_Tensor * max(len(made), 1))()
        keep += [_fill(t, a, b, "output") for t, a, b in zip(outputs, made, self._engine.outputs(self._function))]
        check(lib().ingot_session_run_with(self.pointer, inputs, len(arrays), outputs, len(made)))
        return made

    @property
    def state(self) -> "_States":
        """The buffers that the model writes, by name: reading gives a copy, assigning copies in."""
        return _States(self)

    def reset(self):
        """States become the plan's values again."""
        check(lib().ingot_session_reset(self.pointer))

    def profile(self, *arrays, runs: int = 10) -> list[dict]:
        """Runs `runs` times and gives for each step its label, kernel, sizes, bytes (read and written) and nanoseconds (median)."""
        import statistics

        made = self.run(*arrays)
        _text(lib().ingot_session_profile, self.pointer, 1)
        try:
            noted = []
            for _ in range(runs):
                self.run(*arrays, out=made)
                noted.append(json.loads(_text(lib().ingot_session_profile, self.pointer, 1))["steps"])
        finally:
            _text(lib().ingot_session_profile, self.pointer, 0)
        return [{**steps[0], "nanoseconds": statistics.median(s["nanoseconds"] for s in steps)} for steps in zip(*noted)]


class _States(Mapping):
    def __init__(self, session: Session):
        self._session = session
        self._bindings = {b["name"]: (i, b) for i, b in enumerate(session._engine.states(session._function))}

    def __len__(self):
        return len(self._bindings)

    def __iter__(self):
        return iter(self._bindings)

    def _find(self, name):
        if name not in self._bindings:
            raise InputError(f"the engine has no state {name!r}", remedy="its states are " + (", ".join(self._bindings) or "none"))
        return self._bindings[name]

    def __getitem__(self, name):
        import numpy as np

        index, binding = self._find(name)
        out = np.empty(binding["dims"], _numpy_type(binding["dtype"]))
        check(lib().ingot_session_state(self._session.pointer, index, out.ctypes.data, out.nbytes, 0))
        return out

    def __setitem__(self, name, value):
        import numpy as np

        index, binding = self._find(name)
        try:
            given = np.ascontiguousarray(np.broadcast_to(np.asarray(value, _numpy_type(binding["dtype"])), binding["dims"]))
        except (TypeError, ValueError) as problem:
            raise InputError(f"state {name!r} is {binding['dtype']} {binding['dims']}, and what is given does not become that: {problem}") from None
        check(lib().ingot_session_state(self._session.pointer, index, given.ctypes.data, given.nbytes, 1))


def load_engine(path_or_bytes, *, weights=None, trust="auto", mmap=True, **runtime_option) -> Engine:
    """An engine from a `.ingot` file (mapped) or its bytes, without torch. Nothing in the file runs but, as `trust` says, its code for GPUs.

    weights: {state-dict name: array or tensor} instead of the file's values, not copied; needed for a plan that was saved without. Names
    that the plan does not use are passed over. trust, mmap: as for `ingot.load`.
    """
    out = c_void_p()
    keep = []
    _session_options(runtime_option)
    if weights is not None:
        by_name(weights)
    if trust not in TRUST:
        raise OptionError(f"trust {trust!r} is not known", remedy=", ".join(f'"{name}"' for name in TRUST))
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        data = bytes(path_or_bytes)
        keep.append(data)
        check(lib().ingot_plan_load_memory_with(data, len(data), TRUST[trust], byref(out)))
    else:
        check(lib().ingot_plan_load_with(atomic.encoded(path_or_bytes), TRUST[trust], bool(mmap), byref(out)))
    plan, values = _Plan(out, runtime_option), weights or {}
    if not runtime_option.get("device", "auto").startswith("cuda"):
        values = _on_host(values)
    plan, values, named = _with_values(plan, values)
    engine = Engine(plan, keep, values)
    engine.given = {name: weights[given] for name, given in named.items() if given is not None}
    return engine


def _with_values(plan: _Plan, given: dict) -> tuple[_Plan, dict, dict]:
    """The plan with the values given for its weights, which must leave none without, these values, and by which name each was given."""
    weights, values, named = plan.describe()["weights"], {}, {}
    if given:
        other = {name: tied for tied, name in plan_signature.read(plan.describe()["signature"]).get("tied", {}).items()}
        named = {w["name"]: next((n for n in (w["name"], w["tied_to"], other.get(w["name"])) if n in given), None) for w in weights}
        values = {w["name"]: _fitting(given[named[w["name"]]], w) for w in weights if named[w["name"]] is not None}
        plan = plan.with_weights(values)
        weights = plan.describe()["weights"]
    if missing := [w["name"] for w in weights if w["source"] == "host"]:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise InputError(f"the plan was saved without the values of its weights, and {len(missing)} of {len(weights)} are not given: {shown}", remedy="ingot.load(path, weights=state_dict)")
    return plan, values, named


class TorchRegistry:
    """The op library's own entry points."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        library.ingot_torch_register.argtypes, library.ingot_torch_register.restype = [c_void_p, c_void_p, c_void_p, c_void_p], c_uint64
        library.ingot_torch_unregister.argtypes, library.ingot_torch_unregister.restype = [c_uint64], None
        library.ingot_torch_plan_words.argtypes, library.ingot_torch_plan_words.restype = [c_uint64, POINTER(c_int64)], None
        library.ingot_torch_count_of.argtypes, library.ingot_torch_count_of.restype = [c_void_p], c_void_p
        self._path = path
        self._library = library
        self._engines: dict[int, Engine] = {}
        self.used = library.ingot_torch_used

    def register(self, engine: Engine) -> int:
        watch = engine.watch.pointer if engine.watch is not None else None
        number = self._library.ingot_torch_register(engine._plan.pointer, engine._weights.pointer, engine._options.pointer, watch)
        self._engines[number] = engine
        return number

    def direct(self, exchange, number: int, function: int):
        """A function from a tuple of torch tensors to one of results, without torch's dispatcher, by the DLPack exchange table in the capsule
        `exchange`; RuntimeError as from the op. None where the table or Python is not one it can work with."""
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], c_void_p
        library = ctypes.PyDLL(self._path)  # which keeps Python's lock until the model runs
        library.ingot_torch_can_call.argtypes = [c_void_p]
        table = pointer(exchange, b"dlpack_exchange_api")
        if not library.ingot_torch_can_call(table):
            return None
        call = library.ingot_torch_call
        call.argtypes, call.restype = [c_void_p, c_uint64, ctypes.c_int64, ctypes.py_object], ctypes.py_object
        return functools.partial(call, c_void_p(table), c_uint64(number), ctypes.c_int64(function))

    def unregister(self, number: int):
        self._library.ingot_torch_unregister(number)
        self._engines.pop(number, None)

    def watch(self, changed) -> "TorchWatch":
        return TorchWatch(ctypes.PyDLL(self._path), changed)

    def plan_words(self, number: int) -> list[int]:
        """What the plan tensor of a registered engine holds."""
        words = (c_int64 * 4)()
        self._library.ingot_torch_plan_words(number, words)
        return list(words)

    def count_of(self, tensor: int) -> int | None:
        """The address of the number of writes that torch has counted to a tensor, by the address of its C++ object."""
        return self._library.ingot_torch_count_of(tensor)


class TorchWatch:
    """Words of this process's memory that are compared before an engine runs; see watch.py. `changed(text, room)` is called when one differs."""

    def __init__(self, library, changed):
        self._library = library  # keeps Python's lock: a call is short
        library.ingot_torch_watch_create.argtypes, library.ingot_torch_watch_create.restype = [_Changed], c_void_p
        library.ingot_torch_watch_set.argtypes, library.ingot_torch_watch_set.restype = [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_int], None
        library.ingot_torch_watch_same.argtypes = library.ingot_torch_watch_release.argtypes = [c_void_p]
        library.ingot_torch_watch_release.restype = None
        self._changed = _Changed(changed)
        self.pointer = library.ingot_torch_watch_create(self._changed)
        self.same = functools.partial(library.ingot_torch_watch_same, c_void_p(self.pointer))

    def set(self, words, counts, unknown):
        """words, counts: addresses of 64 and of 32 bits, each with its value behind it."""
        arrays = [(c_uint64 * max(len(list_), 1))(*list_) for list_ in (words, counts)]
        self._library.ingot_torch_watch_set(self.pointer, arrays[0], len(words) // 2, arrays[1], len(counts) // 2, unknown)

    def __del__(self):
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            self._library.ingot_torch_watch_release(pointer)
