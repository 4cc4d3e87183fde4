"""`ingot.Engine` and its sessions: a plan that runs on numpy arrays. Needs neither torch nor numpy to load."""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Mapping
from ctypes import POINTER, byref, c_int32, c_int64, c_uint8, c_void_p

from . import atomic, plan_signature
from ._library import Handle, Options, OutputMemory, Plan, check, lib, session_options, text_of
from ._values import Tensor, broadcast, by_name, fill, fitting, native, numpy_type, on_host
from .errors import DeviceError, InputError, OptionError, UnsupportedError
from .profile import Profile

TRUST = {"auto": 0, "data": 1, "code": 2}  # as ingot_trust


class _Weights(Handle):
    kind = "weights"


class Engine:
    """An immutable compiled model; threads share it. Works without torch, on numpy arrays.

    device: "cpu" or "cuda:0"; None when it was compiled for a GPU elsewhere, to be saved and not to run. watch: where its weights are torch's tensors,
    the `watch.Watch` of them.
    """

    watch = None
    active = None  # weights (weights.Weights) that runs read instead of the engine's own: see use

    def __init__(self, plan: Plan, keep=(), values=None, here=True):
        self._plan, self._keep = plan, list(keep)
        self._built_from: dict = values or {}  # tensors that the plan points at, by name
        self.given: dict = {}  # what load_engine was given, by name
        self._values: dict = {}  # weights given since, by name: the library reads them where they are
        self.forks = weakref.WeakSet()  # see new_weights
        self._options = Options(plan.session_options)
        self._description = None
        self._weights = self.device = None
        if here:
            self._place()

    def _place(self):
        out, gpu = c_void_p(), c_int32()
        check(lib().ingot_weights_create(self._plan.pointer, self._options.pointer, byref(out)))
        self._weights = _Weights(out)
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
        return text_of(lib().ingot_plan_graph, self._plan.pointer, 0)

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
        """Names, without those of functions that only the regions of others run."""
        return [f["name"] for f in self.inspect()["functions"] if not f.get("called")]

    def inputs(self, function: int = 0) -> list[dict]:
        """Name, dtype and dims (numbers, or text for dynamic sizes) of every input."""
        return self.inspect()["functions"][function]["inputs"]

    def outputs(self, function: int = 0) -> list[dict]:
        return self.inspect()["functions"][function]["outputs"]

    def is_open(self, function: int, output: int) -> bool:
        """Whether the sizes of an output are read from data while the function runs."""
        return self.outputs(function)[output].get("open", False)

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

    def _readable_plan(self) -> Plan:
        """The plan with the weights it has now, in memory of the host."""
        self.follow()
        built_from = {w["name"]: self._built_from[w["name"]] for w in self.inspect()["weights"] if getattr(self._built_from.get(w["name"]), "is_cuda", False)}
        values = {**built_from, **self._values, **(self.active.given if self.active is not None else {})}
        return self._plan.with_weights(on_host(values)) if values else self._plan

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

    def use(self, weights: "Weights | None"):
        """Runs that begin from now on read these weights, where they are given no others, and `save` writes them. None: the engine's own."""
        self.active = weights

    def value(self, name):
        """The value of a weight of its own now, by the engine's name: a tensor or array, or bytes of the plan as a ctypes array, dense in the weight's order; None where the plan has none."""
        if name in self._values or name in self._built_from:
            return self._values.get(name, self._built_from.get(name))
        index = next(i for i, w in enumerate(self.inspect()["weights"]) if w["name"] == name)
        weight, out = self.inspect()["weights"][index], c_void_p()
        check(lib().ingot_plan_weight_value(self._plan.pointer, index, byref(out)))
        return (c_uint8 * weight["bytes"]).from_address(out.value) if out.value else None

    def replace(self, state_dict, *, strict=True) -> dict:
        """The same for whoever watches the weights. Gives those that it has, by its names of them."""
        from .weights import commit

        taken, staged = self.staged(state_dict, strict)
        if self._weights is not None:
            commit(self._weights.pointer, staged)
        self._values.update(staged)
        for fork in list(self.forks):
            fork.follow(staged)
        return taken

    def staged(self, state_dict, strict) -> tuple[dict, list]:
        """Those values that the engine has weights for, by its names of them; and as they are given to the library."""
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
        """Changes memory_bytes: from the next run on the weights, with one session's run, take no more than that of a GPU's memory (0: no limit, -1: nine tenths of what is free),
        and the rest is streamed. Results stay the same, bit by bit. `with engine.configure(memory_bytes=...)`: until the end of the block. MemoryError names the least limit
        that works; then nothing has changed."""
        from .memory import Configured

        return Configured([self], runtime_option)

    def memory(self) -> dict[str, int]:
        """Bytes of a GPU's memory: resident (weights that are there), streamed (weights on the host that come there ahead of their steps), ring (what each session has for those),
        arena (what the limit leaves for a run), limit (0: none) and least (the least limit that works). All 0 on the CPU."""
        from .memory import of_weights

        if self._weights is None:
            raise self.not_here()
        return of_weights(self._weights.pointer)

    def session(self, function: int = 0, **runtime_option) -> "Session":
        """A session: one caller at a time. memory_bytes is a limit of the weights, which all sessions share: see configure."""
        if function not in range(len(self.functions)):
            raise InputError(f"there is no function {function!r}: the plan has {len(self.functions)}, counted from 0")
        return Session(self, function, runtime_option)

    def new_state(self, memory=(), **sizes) -> "State":
        """The memory that the functions write, for sessions to run with, begun with the plan's values. memory: {name: array or tensor} that entries lie in instead of
        memory of the state's own, with the values that are there. sizes: of dynamic axes of inputs that are written, by the names in `symbols`."""
        from .state import new_state

        return new_state(self, memory, sizes)

    def new_weights(self, state_dict=(), *, strict=True) -> "Weights":
        """Weights beside the engine's, with these values by state-dict name instead of its own: a version, an adapter. All others are shared."""
        from .weights import new_weights

        return new_weights(self, dict(state_dict), strict)

    def reference(self, *arrays):
        """The plan's graph run by the reference interpreter, on numpy arrays."""
        import numpy as np

        session = self.session()
        inputs = (Tensor * max(len(arrays), 1))()
        keep = [fill(t, native(np.asarray(a)), b, "input") for t, a, b in zip(inputs, arrays, self.inputs())]
        made = session._outputs(inputs, len(arrays))
        if any(a is None for a in made):  # sizes that are read from data: those of a run, which the reference must find too
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

    def configure(self, **runtime_option):
        """As `Engine.configure`: the weights are those of all sessions of the engine."""
        return self._engine.configure(**runtime_option)

    def memory(self) -> dict[str, int]:
        """As `Engine.memory`, with what this session's runs take at the last sizes as `arena`."""
        from .memory import of_session

        return of_session(self.pointer)

    def _outputs(self, inputs, count):
        """Arrays for the outputs; None for each whose sizes are read from data."""
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
        """The callback that makes those arrays while the model runs."""
        import numpy as np

        bindings = self._engine.outputs(self._function)

        def give(_, output, dims, rank):
            try:
                made[output] = np.empty([dims[d] for d in range(rank)], numpy_type(bindings[output]["dtype"]))
            except MemoryError:
                return None
            return made[output].ctypes.data or None

        return OutputMemory(give)

    def run(self, *arrays, out=None, state=None, weights=None):
        """Runs on arrays in the order of the engine's inputs; returns the list of outputs (`out` when given).

        An array that the model writes (`written` in the engine's inputs) is changed in place. What else it writes is in `state` (`Engine.new_state`), or without one in a
        state of the session's own; written inputs that the state has are left out of the arrays. `weights` (`Engine.new_weights`) are read instead of the engine's.
        """
        if weights is None:
            weights = self._engine.active
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
        import numpy as np

        self._engine.follow()
        bindings = self._engine.inputs(self._function)
        for array, binding in zip(arrays, bindings):
            if binding.get("written") and not hasattr(array, "fill_in") and not (isinstance(array, np.ndarray) and array.flags.writeable and native(array) is array):
                raise InputError(f"the model writes input {binding['name']!r}, which is no writeable array in this machine's byte order")
        inputs = (Tensor * max(len(arrays), 1))()
        keep = [a.fill_in(t, b) if hasattr(a, "fill_in") else fill(t, native(np.asarray(a)), b, "input") for t, a, b in zip(inputs, arrays, bindings)]
        made = self._outputs(inputs, len(arrays)) if out is None else list(out)
        late = [i for i, array in enumerate(made) if array is None]
        for array, binding in zip(made, self._engine.outputs(self._function)):
            if array is None and out is None:
                continue
            if not isinstance(array, np.ndarray):
                raise InputError(f"what is given for output {binding['name']!r} is of type {type(array).__name__}, and has to be a numpy array")
            if not (array.flags.writeable and array.dtype.isnative):
                raise InputError(f"the array given for output {binding['name']!r} is read-only or in another byte order")
        outputs = (Tensor * max(len(made), 1))()
        bindings = self._engine.outputs(self._function)
        for i in late:  # of no memory, so only its dtype and rank count
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
        return made

    @property
    def state(self) -> "_States":
        """The buffers that the model writes, by name: reading gives a copy, assigning copies in."""
        return _States(self)

    def reset(self):
        """States become the plan's values again."""
        check(lib().ingot_session_reset(self.pointer))

    def profile(self, *arrays, runs: int = 10) -> Profile:
        """Runs `runs` times and gives each step with its median time."""
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


def load_engine(path_or_bytes, *, weights=None, trust="auto", mmap=True, **runtime_option) -> Engine:
    """An engine from a `.ingot` file (mapped) or its bytes, without torch. Nothing in the file runs but, as `trust` says, its code for GPUs.

    weights: {state-dict name: array or tensor} instead of the file's values, not copied; needed for a plan that was saved without. Names
    that the plan does not use are passed over. trust, mmap: as for `ingot.load`.
    """
    out = c_void_p()
    keep = []
    session_options(runtime_option)
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
    plan, values = Plan(out, runtime_option), weights or {}
    if not runtime_option.get("device", "auto").startswith("cuda"):
        values = on_host(values)
    plan, values, named = _with_values(plan, values)
    engine = Engine(plan, keep, values)
    engine.given = {name: weights[given] for name, given in named.items() if given is not None}
    return engine


def _with_values(plan: Plan, given: dict) -> tuple[Plan, dict, dict]:
    """The plan with the values given for its weights, which must leave none without, these values, and by which name each was given."""
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
