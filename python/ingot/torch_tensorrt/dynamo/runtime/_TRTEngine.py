"""`TRTEngine`: an engine as scripts see it."""

from __future__ import annotations

from .... import _engine
from ..._profiles import Profiles


class TRTEngine:
    """One function of an `ingot.Engine`, under the names that scripts know; all others are the `ingot.Engine`'s, which is `ingot_engine`.

    in_binding_names, out_binding_names: of inputs and results. num_optimization_profiles: of the module's inputs; `runtime.optimization_profile` chooses one. aliased_io: what
    is written in place (see TorchTensorRTModule.aliased_io), and aliased_input_binding_names its inputs.
    """

    def __init__(self, engine: _engine.Engine, function: int = 0, profiles: Profiles | None = None):
        self.ingot_engine, self.function, self._profiles = engine, function, profiles or Profiles((), {})

    def __getattr__(self, name):
        if name == "ingot_engine":  # while it is made
            raise AttributeError(name)
        return getattr(self.ingot_engine, name)

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
        """Whether sizes are known while it runs only: its results then get memory as they come, and its runs are no CUDA graph."""
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
