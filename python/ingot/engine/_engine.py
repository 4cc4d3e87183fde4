"""`ingot.Engine` and its sessions: a plan that runs on numpy arrays. Needs neither torch nor numpy to load."""

from __future__ import annotations

import functools
import json
import os
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint8, c_void_p
from typing import TYPE_CHECKING, Any

from ..base import atomic, debug, processes
from ..errors import DeviceError, InputError, OptionError, UnsupportedError
from . import plan_signature
from ._library import Handle, Options, OutputMemory, Plan, check, lib, session_options, text_of
from ._values import Tensor, broadcast, by_name, fill, fitting, is_writeable, native, numpy_type, on_host, plain
from .last_call import LastCall, last_call
from .profile import Profile
from .readers import Readers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..option_types import SessionOptions
    from .state import State
    from .weights import Weights

TRUST = {"auto": 0, "data": 1, "code": 2}  # values of ingot_trust
SIGNED = "signed"  # a level with functions of its own


def checked_keys(trust: str, keys) -> list[bytes]:
    """The keys as C takes them. Raises OptionError for an unknown level of trust, and unless keys are given for "signed" and for nothing else."""
    if trust not in (*TRUST, SIGNED):
        raise OptionError(f"trust {trust!r} is not known", remedy=", ".join(f'"{name}"' for name in (*TRUST, SIGNED)))
    if (trust == SIGNED) != (keys is not None):
        raise OptionError('trust "signed" needs keys' if keys is None else f'keys are for trust "signed", not {trust!r}', remedy='trust="signed", keys=["ed25519:.."]')
    if isinstance(keys, (str, bytes, os.PathLike)):
        raise OptionError(f"keys is {keys!r}, not a list", remedy=f"keys=[{keys!r}]")
    return [atomic.encoded(key) for key in keys or ()]


class _Weights(Handle):
    kind = "weights"


class Engine:
    """An immutable compiled model; threads share it. Works without torch, on numpy arrays.

    device: "cpu" or "cuda:0"; None if it was compiled for a GPU elsewhere, only to be saved.
    watch: the `watch.Watch` of its weights, if they are torch tensors.
    """

    watch = None
    first: dict = {}  # of caches: the tensors that a file has, by their names
    active = None  # weights (weights.Weights) that runs read instead of the engine's own: see `use`

    def __init__(self, plan: Plan, keep=(), values=None, here=True):
        self._plan, self._keep = plan, list(keep)
        self._built_from: dict = values or {}  # tensors that the plan points at, by name
        self.given: dict = {}  # the weights given to load_engine, by name
        self._values: dict = {}  # weights given later, by name; the library reads them in place
        self.forks = weakref.WeakSet()  # see new_weights
        self._changing = processes.Lock()
        self.readers = Readers()
        self.changes = 0  # how often something was changed that a run reads
        self._options = Options(plan.session_options)
        self.family = object()  # of engines whose weights are forks of one another: see with_values
        self._description = None
        self._weights = self.device = None
        if here:
            self._place()

    def _place(self):
        out, gpu = c_void_p(), c_int32()
        with debug.for_library():  # it compiles a plan for another GPU, or of another revision, anew
            check(lib().ingot_weights_create(self._plan.pointer, self._options.pointer, byref(out)))
        self._weights = _Weights(out)
        check(lib().ingot_weights_device(out, byref(gpu)))
        self.device = "cpu" if gpu.value < 0 else f"cuda:{gpu.value}"

    def with_values(self, state_dict) -> Engine:
        """An engine of the same plan with other values for the weights that it has of these, by state-dict name. Both run in the same memory, one at a time, when torch calls them."""
        out = c_void_p()
        with self.changing():
            check(lib().ingot_weights_fork(self._weights.pointer, byref(out)))
        made = Engine(self._plan, self._keep, here=False)
        made.family, made._options, made._weights, made.device = self.family, self._options, _Weights(out), self.device
        made.replace({w["name"]: state_dict[w["name"]] for w in self.inspect()["weights"] if w["name"] in state_dict})
        return made

    @property
    def targets(self) -> str:
        """The targets it was compiled for: "cpu", "cuda:sm_90", or several with commas."""
        return self.inspect()["provenance"].get("target", "")

    def not_here(self) -> DeviceError:
        return DeviceError(
            f"the model is on the CPU, and was compiled for {self.targets}: it cannot run here",
            remedy=f'ingot.save it, and ingot.load the file where the GPU is; target="cpu,{self.targets}" for a module that runs here too',
        )

    def inspect(self) -> dict:
        """A description of the plan: functions with their bindings, sizes and steps, weights and provenance."""
        if self._description is None:
            self._description = self._plan.describe()
        return self._description

    @property
    def graph(self) -> str:
        """The portable graph the plan was made from, as text."""
        return self.graph_of(0)

    def graph_of(self, function: int) -> str:
        return text_of(lib().ingot_plan_graph, self._plan.pointer, function)

    @functools.cached_property
    def signature(self) -> dict:
        """The text that Python stored in the plan: the structure of inputs and results."""
        return plan_signature.read(self.inspect()["signature"])

    @property
    def tied(self) -> dict[str, str]:
        """Other state-dict names of tied weights, each with the engine's name."""
        others = {w["tied_to"]: w["name"] for w in self.inspect()["weights"] if w["tied_to"]}
        return {**others, **self.signature.get("tied", {})}

    @property
    def functions(self) -> list[str]:
        """Names of the functions, without those that only regions of others run."""
        return [f["name"] for f in self.inspect()["functions"] if not f.get("called")]

    def __repr__(self):
        names = (", ".join(f"{binding['name']}: {binding['dtype']}" for binding in bindings) for bindings in (self.inputs(), self.outputs()))
        return "Engine(inputs=[{}], outputs=[{}], device={!r})".format(*names, self.device)

    def inputs(self, function: int = 0) -> list[dict]:
        """Name, dtype and dims (numbers, or text for dynamic sizes) of every input."""
        return self.inspect()["functions"][function]["inputs"]

    def outputs(self, function: int = 0) -> list[dict]:
        return self.inspect()["functions"][function]["outputs"]

    def is_open(self, function: int, output: int) -> bool:
        """Whether the sizes of an output are read from data while the function runs."""
        return self.outputs(function)[output].get("open", False)

    def symbols(self, function: int = 0) -> dict[str, dict]:
        """Every dynamic size by name: min, opt, max, and the input axis that gives it: (size of axis `axis` of input number `input` - `offset`) / `factor`."""
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

    def changing(self):
        """Inside of `with`, one thread at a time replaces weights. Old values are kept as long as the library reads them."""
        self.changes += 1
        return self._changing()

    def _readable_plan(self) -> Plan:
        """The plan with the current weights, in host memory."""
        self.follow()
        built_from = {w["name"]: self._built_from.get(w["name"]) for w in self.inspect()["weights"]}
        built_from = {name: t for name, t in built_from.items() if getattr(t, "is_cuda", False)}
        values = {**built_from, **self._values, **(self.active.given if self.active is not None else {})}
        return self._plan.with_weights(on_host(values)) if values else self._plan

    def follow(self):
        """Takes the changes of the torch tensors that are its weights."""
        if self.watch is not None:
            self.watch.follow()

    def save(self, path: str | os.PathLike[str], *, weights: str | None = None) -> None:
        """Writes the plan, atomically.

        weights: "embed" writes their current values, "strip" leaves them out (`load_engine(path, weights=...)` takes them), None does what the option `weights`
            said when the plan was compiled."""
        if "refused" in self.signature:
            message, remedy = self.signature["refused"]
            raise UnsupportedError(message, remedy=remedy)
        plan = self._readable_plan()
        if self.first:
            plan = plan.with_weights(on_host({name: value.contiguous() for name, value in self.first.items()}))
        if weights in (None, self.inspect()["provenance"].get("weights", "embed")):
            check(lib().ingot_plan_save(plan.pointer, atomic.encoded(path)))
        else:
            atomic.write_bytes(path, plan.bytes(weights == "embed"))

    def update_weights(self, state_dict, *, strict=True):
        """Replaces weights by state-dict name.

        The values are torch tensors or numpy arrays of the same dtype and shape. They are read in place, so do not change or free them. A module's engine
        notices writes that torch counts."""
        self.follow()
        taken = self.replace(state_dict, strict=strict)
        if self.watch is not None:
            self.watch.taken(taken)

    def use(self, weights: Weights | None):
        """Makes these weights the default of later runs and of `save`. None: the engine's own weights."""
        self.changes += 1
        self.active = weights

    def value(self, name):
        """The current value of one of its own weights, by the engine's name: a tensor or array, or bytes of the plan as a ctypes array, dense in the weight's order. None if the plan has no value."""
        if name in self._values or name in self._built_from:
            return self._values.get(name, self._built_from.get(name))
        index = next(i for i, w in enumerate(self.inspect()["weights"]) if w["name"] == name)
        weight, out = self.inspect()["weights"][index], c_void_p()
        check(lib().ingot_plan_weight_value(self._plan.pointer, index, byref(out)))
        return (c_uint8 * weight["bytes"]).from_address(out.value) if out.value else None

    def replace(self, state_dict, *, strict=True) -> dict:
        """`update_weights` for the code that watches the weights. Returns the values of weights that the engine has, by the engine's names."""
        from .weights import commit

        taken, staged = self.staged(state_dict, strict)
        with self.changing():
            if self._weights is not None:
                commit(self._weights.pointer, staged)
            before = [self._values.get(name) for name, _ in staged]  # which forks read until they follow
            self._values.update(staged)
            for fork in list(self.forks):
                fork.follow(staged)
            self.readers.replaced(before)
            self._release([name for name, _ in staged if getattr(self._built_from.get(name), "is_cuda", False)])
        self.readers.wait()  # here `before` still holds them
        return taken

    def _release(self, replaced):
        """Lets go of GPU memory that the plan points at, of weights that have other values now: nothing reads a plan's value of such a weight."""
        if replaced:
            import torch

            torch.cuda.synchronize(self.device)  # runs in other streams may still read it
            for name in replaced:
                self._built_from.pop(name, None)  # tied weights come under both names

    def staged(self, state_dict, strict) -> tuple[dict, list]:
        """The values of weights that the engine has, by the engine's names; and the same values as the library gets them."""
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
            value = fitting(value, weights[name])
            staged.append((name, value.cpu() if self.device in ("cpu", None) and getattr(value, "is_cuda", False) else value))
        return taken, staged

    def configure(self, **runtime_option):
        """Changes memory_bytes, the limit of GPU memory for the weights and one session's run, from the next run on (0: no limit, -1: nine tenths of the free memory).

        Weights beyond the limit are streamed from the host. Results stay the same, bit by bit. In a `with` statement the old limit returns at the end of the block.
        Raises MemoryError if the limit is too small: the error names the smallest one that works, and nothing has changed.
        """
        from .memory import Configured

        return Configured([self], runtime_option)

    def memory(self) -> dict[str, int]:
        """GPU memory in bytes; all 0 on the CPU.

        resident: weights on the GPU. streamed: weights on the host, which are copied to the GPU ahead of the steps that read them. ring: the GPU memory of each session
        for these copies. arena: memory reserved for a run. limit: 0 means none. least: the smallest limit that works.
        """
        from .memory import of_weights

        if self._weights is None:
            raise self.not_here()
        return of_weights(self._weights.pointer)

    def session(self, function: int = 0, **runtime_option: Unpack[SessionOptions]) -> Session:
        """A session: one caller at a time. Option memory_bytes limits the weights, which all sessions share: see `configure`."""
        if function not in range(len(self.functions)):
            raise InputError(f"there is no function {function!r}: the plan has {len(self.functions)}, counted from 0")
        return Session(self, function, runtime_option)

    def new_state(self, memory=(), **sizes) -> State:
        """An `ingot.State`: the memory that the functions write, for sessions to run with. It starts with the plan's values.

        memory: {name: array or tensor} to use as entries, with their current values, instead of memory of the state's own.
        sizes: sizes of the dynamic axes of written inputs, by the names in `symbols`."""
        from .state import new_state

        return new_state(self, memory, sizes)

    def new_weights(self, state_dict=(), *, strict=True) -> Weights:
        """An `ingot.Weights`: the engine's weights with other values for some, by state-dict name, for a version or an adapter. All others are shared."""
        from .weights import new_weights

        return new_weights(self, dict(state_dict), strict)

    def reference(self, *arrays):
        """The plan's graph run by the reference interpreter, on numpy arrays."""
        import numpy as np

        session = self.session()
        inputs = (Tensor * max(len(arrays), 1))()
        keep = [fill(t, plain(a, "cpu", b, "input"), b, "input") for t, a, b in zip(inputs, arrays, self.inputs())]
        made = session._outputs(inputs, len(arrays))
        if any(a is None for a in made):  # sizes read from data: a run finds them, and the reference must find the same
            made = [np.empty_like(a) for a in session.run(*(np.array(a) for a in arrays))]
        outputs = (Tensor * max(len(made), 1))()
        keep += [fill(t, a, b, "output") for t, a, b in zip(outputs, made, self.outputs())]
        plan = self._readable_plan()
        check(lib().ingot_plan_reference(plan.pointer, 0, inputs, len(arrays), outputs, len(made)))
        del keep, plan
        return made


class Session(Handle):
    """Runs one function of an engine on numpy arrays (bfloat16 as uint16)."""

    kind = "session"

    def __init__(self, engine: Engine, function: int, runtime_option: dict):
        out = c_void_p()
        if engine._weights is None:
            raise engine.not_here()
        self._engine, self._function = engine, function
        self._options = session_options({**engine._plan.session_options, **runtime_option})
        if "memory_bytes" in runtime_option:
            engine.configure(memory_bytes=runtime_option["memory_bytes"])
        check(lib().ingot_session_create(engine._plan.pointer, engine._weights.pointer, function, self._options.pointer, byref(out)))
        super().__init__(out)
        self._last: LastCall | None = None
        inputs, outputs = engine.inputs(function), engine.outputs(function)
        self._names = [binding["name"] for binding in inputs]
        self._repeats = not any(b.get("written") for b in inputs) and not any(b.get("open") for b in outputs)  # whether a call may be done like the last one

    def configure(self, **runtime_option):
        """Like `Engine.configure`: the weights belong to all sessions of the engine."""
        return self._engine.configure(**runtime_option)

    def memory(self) -> dict[str, int]:
        """Like `Engine.memory`, but `arena` is the memory that this session's runs take at its last sizes."""
        from .memory import of_session

        return of_session(self.pointer)

    def _outputs(self, inputs, count):
        """Arrays for the outputs; None for each output whose sizes are read from data."""
        import numpy as np

        check(lib().ingot_session_resolve(self.pointer, inputs, count))
        made = []
        for i, binding in enumerate(self._engine.outputs(self._function)):
            rank, dims = c_int32(), POINTER(c_int64)()
            check(lib().ingot_session_output(self.pointer, i, byref(rank), byref(dims)))
            open_ = self._engine.is_open(self._function, i)
            made.append(None if open_ else np.empty([dims[d] for d in range(rank.value)], numpy_type(binding["dtype"])))
        return made

    def _late(self, made):
        """The callback that makes the arrays of outputs with open sizes, while the model runs."""
        import numpy as np

        bindings = self._engine.outputs(self._function)

        def give(_, output, dims, rank):
            try:
                made[output] = np.empty([dims[d] for d in range(rank)], numpy_type(bindings[output]["dtype"]))
            except MemoryError:
                return None
            return made[output].ctypes.data or None

        return OutputMemory(give)

    def run(self, *arrays: Any, out: Sequence[Any] | None = None, state: State | None = None, weights: Weights | None = None, **named: Any) -> list[Any]:
        """Runs the function once and returns the list of its outputs, as numpy arrays.

        arrays: the inputs, with the dtypes and shapes in `Engine.inputs`, in this order: anything that numpy.asarray takes (bfloat16 as uint16) and torch tensors; if the
            engine runs on a GPU, also torch tensors and arrays with `__cuda_array_interface__` (CuPy, Numba) on that GPU, which are read and written in place. An array
            that the model writes (`written` there) is changed in place. Also in one list, or by name: run([x, y]), run(ids=x, mask=y), run({"ids": x, "mask": y}).
        out: arrays or tensors for the outputs, which are then returned; None allocates numpy arrays.
        state: holds everything else that the model writes (`Engine.new_state`); without it the session uses a state of its own. Leave written inputs that the
            state has out of the arrays.
        weights: read instead of the engine's (`Engine.new_weights`).

        If all arrays are on the GPU, the call is work in CUDA's default stream and returns before it is done. Raises InputError for arrays that do not fit and for
        sizes outside of the range.
        """
        if len(arrays) == 1 and type(arrays[0]) in (list, tuple) and self._are_inputs(arrays[0]):
            arrays = tuple(arrays[0])
        if named or arrays and isinstance(arrays[-1], Mapping):
            arrays = self._by_name(arrays, named, state)
        reading = self._engine.readers.begin()
        try:
            return self._run_with(self._engine.active if weights is None else weights, arrays, out, state)
        finally:
            self._engine.readers.end(reading)

    def _are_inputs(self, given) -> bool:
        """Whether a list holds one value for each input. A list of numbers is one value."""
        return len(given) == len(self._names) and all(len(getattr(value, "shape", ())) == len(b["dims"]) and hasattr(value, "shape") for value, b in zip(given, self._engine.inputs(self._function)))

    def _by_name(self, arrays, named, state):
        """The arrays in order. `arrays`: none, a mapping, or None and a mapping (as ONNX Runtime's sessions take them)."""
        given = dict(named)
        if arrays:
            if len(arrays) > 2 or len(arrays) == 2 and arrays[0] is not None or not isinstance(arrays[-1], Mapping):
                raise InputError("inputs are given in order and by name at once", remedy="session.run(x, mask) or session.run(ids=x, mask=mask)")
            given |= arrays[-1]
        names = self._names
        for name in given:
            if name not in names:
                import difflib

                near = difflib.get_close_matches(str(name), names, n=1)
                raise InputError(f"the engine has no input {name!r}; its inputs are {', '.join(names)}", remedy=f"did you mean {near[0]!r}?" if near else "")
        missing = [name for name in names if name not in given and not (state is not None and self._is_written(name))]
        if missing:
            raise InputError(f"input {missing[0]!r} is missing; the engine's inputs are {', '.join(names)}")
        return tuple(given[name] for name in names if name in given)

    def _is_written(self, name) -> bool:
        return any(binding["name"] == name and binding.get("written") for binding in self._engine.inputs(self._function))

    def _run_with(self, weights, arrays, out, state):
        if weights is not None:
            from .weights import of_engine

            check(lib().ingot_session_set_weights(self.pointer, of_engine(weights, self._engine).pointer))
            try:
                return self._run(arrays, out, state)
            finally:
                check(lib().ingot_session_set_weights(self.pointer, self._engine._weights.pointer))
        return self._run(arrays, out, state)

    def _run(self, arrays, out, state):
        if state is not None:
            from .state import complete

            arrays = complete(state, arrays, self._engine.inputs(self._function))
            check(lib().ingot_session_set_state(self.pointer, state.pointer))
            try:
                return self._run(arrays, out, None)
            finally:
                check(lib().ingot_session_set_state(self.pointer, None))
        self._engine.follow()
        if self._last is not None and (made := self._last.made_for(arrays, out)) is not None:
            check(lib().ingot_session_run_with(self.pointer, self._last.inputs, len(arrays), self._last.outputs, len(made)))
            return made
        import numpy as np

        bindings = self._engine.inputs(self._function)
        device = self._engine.device
        for array, binding in zip(arrays, bindings):
            if binding.get("written") and not hasattr(array, "fill_in") and not is_writeable(array):
                raise InputError(f"the model writes input {binding['name']!r}, but the given array is read-only or not in this machine's byte order")
        inputs = (Tensor * max(len(arrays), 1))()
        keep = [a.fill_in(t, b) if hasattr(a, "fill_in") else fill(t, plain(a, device, b, "input"), b, "input") for t, a, b in zip(inputs, arrays, bindings)]
        made = self._outputs(inputs, len(arrays)) if out is None else list(out)
        late = [i for i, array in enumerate(made) if array is None] if out is None else []
        for array, binding in zip(made, self._engine.outputs(self._function)):
            if array is None and out is None:
                continue
            if not (isinstance(array, np.ndarray) or hasattr(array, "data_ptr") or hasattr(array, "__cuda_array_interface__")):
                raise InputError(f"the value given for output {binding['name']!r} is of type {type(array).__name__}, and has to be a numpy array or a tensor")
            if not is_writeable(array):
                raise InputError(f"the array given for output {binding['name']!r} is read-only or in another byte order")
            plain(array, device, binding, "output")
        outputs = (Tensor * max(len(made), 1))()
        bindings = self._engine.outputs(self._function)
        for i in late:  # an output without memory: only its dtype and rank count
            made[i] = np.empty([0] * len(bindings[i]["dims"]), numpy_type(bindings[i]["dtype"]))
        keep += [fill(t, a, b, "output") for t, a, b in zip(outputs, made, bindings)]
        give = self._late(made) if late else OutputMemory()
        for i in late:
            outputs[i].data = None
        if late:
            check(lib().ingot_session_set_output_memory(self.pointer, give, None))
        try:
            check(lib().ingot_session_run_with(self.pointer, inputs, len(arrays), outputs, len(made)))
        finally:
            if late:
                lib().ingot_session_set_output_memory(self.pointer, OutputMemory(), None)
        self._last = last_call(np, inputs, outputs, arrays, made, keep) if self._repeats else None
        return made

    @property
    def state(self) -> _States:
        """The buffers that the model writes, by name. Reading returns a copy, assigning copies the value in."""
        return _States(self)

    def reset(self):
        """Sets the state to the plan's values again."""
        check(lib().ingot_session_reset(self.pointer))

    def profile(self, *arrays, runs: int = 10) -> Profile:
        """Runs `runs` times and returns each step with its median time."""
        import statistics

        if runs < 1:
            raise InputError(f"a profile of {runs} runs has nothing in it", remedy="runs=1 or more")
        made = self.run(*arrays)
        text_of(lib().ingot_session_profile, self.pointer, 1)
        try:
            noted = []
            for _ in range(runs):
                self.run(*arrays, out=made)
                noted.append(json.loads(text_of(lib().ingot_session_profile, self.pointer, 1)))
            trace = text_of(lib().ingot_session_trace, self.pointer)
        finally:
            text_of(lib().ingot_session_profile, self.pointer, 0)
        steps = [{**steps[0], "nanoseconds": statistics.median(s["nanoseconds"] for s in steps)} for steps in zip(*(n["steps"] for n in noted))]
        return Profile(steps, statistics.median(n["call_nanoseconds"] for n in noted), runs, trace)


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
        out = np.empty(binding["dims"], numpy_type(binding["dtype"]))
        check(lib().ingot_session_state(self._session.pointer, index, out.ctypes.data, out.nbytes, 0))
        return out

    def __setitem__(self, name, value):
        index, binding = self._find(name)
        given = broadcast(value, binding)
        check(lib().ingot_session_state(self._session.pointer, index, given.ctypes.data, given.nbytes, 1))


def load_engine(
    path_or_bytes: str | bytes | os.PathLike[str],
    *,
    weights: Mapping[str, Any] | None = None,
    trust: str = "auto",
    keys: Sequence[str | os.PathLike[str]] | None = None,
    mmap: bool = True,
    **runtime_option: Unpack[SessionOptions],
) -> Engine:
    """An engine from a `.ingot` file (mapped) or its bytes, without torch. Nothing in the file runs, except its GPU code as far as `trust` allows.

    weights: {state-dict name: array or tensor} instead of the file's values, not copied. Needed for a plan that was saved without values. Names that the plan
        does not use are ignored.
    trust, keys, mmap: as for `ingot.load`.
    """
    out = c_void_p()
    keep = []
    session_options(runtime_option)
    if weights is not None:
        by_name(weights)
    texts = checked_keys(trust, keys)
    signers = ((c_char_p * max(len(texts), 1))(*texts), len(texts))
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        data = bytes(path_or_bytes)
        keep.append(data)
        if trust == SIGNED:
            check(lib().ingot_plan_load_memory_signed(data, len(data), *signers, byref(out)))
        else:
            check(lib().ingot_plan_load_memory_with(data, len(data), TRUST[trust], byref(out)))
    elif trust == SIGNED:
        check(lib().ingot_plan_load_signed(atomic.encoded(path_or_bytes), *signers, byref(out)))
    else:
        check(lib().ingot_plan_load_with(atomic.encoded(path_or_bytes), TRUST[trust], bool(mmap), byref(out)))
    plan, values = Plan(out, runtime_option), weights or {}
    if not runtime_option.get("device", "auto").startswith("cuda"):
        values = on_host(values)
    plan, values, named = _with_values(plan, values)
    engine = Engine(plan, keep, values)
    engine.given = {name: weights[given] for name, given in named.items() if given is not None}
    return engine


def _with_values(plan: Plan, given: dict) -> tuple[Plan, dict, dict]:
    """The plan with the given values (every weight must have one then), those values, and the name under which each was given."""
    weights, values, named = plan.describe()["weights"], {}, {}
    if given:
        other = {name: tied for tied, name in plan_signature.read(plan.describe()["signature"]).get("tied", {}).items()}
        named = {w["name"]: next((n for n in (w["name"], w["tied_to"], other.get(w["name"])) if n in given), None) for w in weights}
        values = {w["name"]: fitting(given[named[w["name"]]], w) for w in weights if named[w["name"]] is not None}
        plan = plan.with_weights(values)
        weights = plan.describe()["weights"]
    if missing := [w["name"] for w in weights if w["source"] == "host"]:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise InputError(f"the plan was saved without the values of its weights, and {len(missing)} of {len(weights)} are not given: {shown}", remedy="ingot.load(path, weights=state_dict)")
    return plan, values, named
