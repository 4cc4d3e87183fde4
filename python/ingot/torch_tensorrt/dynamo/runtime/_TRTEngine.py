"""`TRTEngine`: an engine under the names that scripts use."""

from __future__ import annotations

import torch

from ....engine import _engine, _op
from ....errors import InputError, UnsupportedError
from ..._profiles import Profiles

ENGINE_IDX, SERIALIZATION_LEN = 3, 13  # where the bytes stand among the fields of an engine that is written down



class TRTEngine:
    """One function of an `ingot.Engine`, under the names that scripts use. All other attributes are those of the `ingot.Engine`, which is `ingot_engine`.

    in_binding_names, out_binding_names: names of inputs and results.
    num_optimization_profiles: number of profiles of the module's inputs; `runtime.optimization_profile` chooses one.
    aliased_io: what is written in place (see TorchTensorRTModule.aliased_io). aliased_input_binding_names: the inputs among it.
    In place of an engine, it takes the result of `serialized_info` and makes the engine from it.
    """

    def __init__(self, engine: _engine.Engine | list, function: int = 0, profiles: Profiles | None = None):
        if isinstance(engine, (list, tuple)):
            if len(engine) != SERIALIZATION_LEN:
                raise InputError(f"an engine that is written down has {SERIALIZATION_LEN} fields, and {len(engine)} are given")
            engine = _engine.load_engine(engine[ENGINE_IDX])
        self.ingot_engine, self.function, self._profiles = engine, function, profiles or Profiles((), {})

    def __getattr__(self, name):
        if name == "ingot_engine":  # not set yet during construction
            raise AttributeError(name)
        return getattr(self.ingot_engine, name)

    @property
    def serialized_engine(self) -> bytes:
        """The function as a plan of its own, with the weights of now. UnsupportedError where it writes buffers of the model, which no plan of one function holds."""
        if states := self.ingot_engine.states(self.function):
            raise UnsupportedError(f"the engine writes the model's buffer {states[0]['name']}, which is not in the bytes of an engine", remedy="torch_tensorrt.save the whole module")
        return self.ingot_engine._readable_plan().part(self.function).bytes(values=True)

    @property
    def serialized_info(self) -> list:
        """The engine's bytes among its names, in upstream's order of fields; a field that has no meaning here is empty."""
        fields = [""] * SERIALIZATION_LEN
        fields[:6] = "ingot", self.ingot_engine.functions[self.function], self.ingot_engine.device, self.serialized_engine, "%".join(self.in_binding_names), "%".join(self.out_binding_names)
        return fields

    def execute(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The results for inputs in the order of in_binding_names; what is written in place is written in these."""
        return list(_op.Runner(self.ingot_engine, self.function)(inputs))

    @property
    def in_binding_names(self) -> list[str]:
        return [b["name"] for b in (*self.ingot_engine.inputs(self.function), *self.ingot_engine.states(self.function))]

    @property
    def out_binding_names(self) -> list[str]:
        return [b["name"] for b in self.ingot_engine.outputs(self.function)]

    @property
    def aliased_io(self) -> dict[str, tuple[str, str]]:
        bindings = [*(b for b in self.ingot_engine.inputs(self.function) if b.get("written")), *self.ingot_engine.states(self.function)]
        return {b["name"]: (b["name"], "kv_cache_update" if len(b["dims"]) == 4 else "user") for b in bindings}

    @property
    def aliased_input_binding_names(self) -> set[str]:
        return {source for source, _ in self.aliased_io.values()}

    @property
    def reads_sizes_from_data(self) -> bool:
        """Whether sizes are known while it runs only: its results then get memory as they come, and its runs are not a CUDA graph."""
        return any(region["reads"] for region in self.ingot_engine.inspect()["functions"][self.function].get("regions", ()))

    @property
    def num_optimization_profiles(self) -> int:
        return self._profiles.count

    @property
    def _active_profile_index(self) -> int:
        return self._profiles.active

    @property
    def _auto_select_profiles(self) -> bool:
        return self._profiles.auto

    def __repr__(self):
        return f"TRTEngine({self.ingot_engine.functions[self.function]!r} of {self.ingot_engine!r})"
