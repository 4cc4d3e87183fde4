"""The table of Torch-TensorRT's settings. It gives `CompilationSettings`, ingot's options, the log messages, and docs/migration.md.

Each row has a status. "works": an option of ingot does the same. "differs": accepted; the text says what holds here. "not yet": accepted with a warning, without effect.
"refused": a value other than the default is an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ...autocast_options import Autocast
from ...errors import InputError, OptionError
from .._Device import Device
from .._enums import EngineCapability
from .._enums import dtype as _dtype
from .._errors import refusal
from .._said import log, once
from ._dryrun import teller


@dataclass(frozen=True)
class Setting:
    """One setting of Torch-TensorRT.

    group: "field" of CompilationSettings, "call" for arguments of entry points only, or "older" for settings of older versions.
    to: a function from a value to ingot's options.
    quiet: values other than the default that need no log message.
    remedy: what a refusal tells the user to do.
    """

    name: str
    default: Any
    status: str
    text: str
    to: Callable[[Any], dict] | None = None
    group: str = "field"
    quiet: tuple = ()
    remedy: str = ""

    @property
    def initial(self):
        return self.default() if isinstance(self.default, type) else self.default

    def is_default(self, value) -> bool:
        return value is self.initial or (type(value) is type(self.initial) and value == self.initial) or any(value is q or value == q for q in self.quiet)

    def options(self, value) -> dict:
        """ingot's options for the value. Logs once if the setting differs or is missing here; raises UnsupportedError if it is refused."""
        if self.is_default(value):
            return self.to(value) if self.to is not None and self.status == "works" else {}
        if self.status == "refused":
            raise refusal(f"{self.name}={value!r}", self.text, self.remedy)
        if self.status != "works":
            once(f"setting {self.name}", f"{self.name}: {self.text}", logging.WARNING if self.status == "not yet" else logging.INFO)
        return self.to(value) if self.to is not None else {}


def _row(status):
    def row(name, default, text, to=None, **more):
        return Setting(name, default, status, text, to, **more)

    return row


_works, _differs, _not_yet, _refused = map(_row, ("works", "differs", "not yet", "refused"))


# ---- values


def operator_name(target) -> str:
    """An operator as ingot's option `torch_executed_ops` names it: "aten.mul.Tensor"."""
    text = target if isinstance(target, str) else str(target)
    return text.removeprefix("torch.ops.").replace("::", ".").removesuffix("'>")


def module_name(target) -> str:
    return target if isinstance(target, str) else target.__name__ if isinstance(target, type) else type(target).__name__


def _block_size(value) -> dict:
    if value == math.inf:
        return {"dryrun": teller()}
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value) or value < 0:
        raise OptionError(f"min_block_size is {value!r}", remedy="a number of operators, or float('inf') for a dry run")
    return {"min_block_size": int(value)}


def _optimization_level(value) -> dict:
    if value is None:
        return {}
    if isinstance(value, bool) or value not in range(6):
        raise OptionError(f"optimization_level is {value!r}", remedy="0 to 5, or None")
    return {"build_seconds": (0, 0, 5, 20, 60, 300)[value]}


def _device(value) -> dict:
    Device._from(value).to(torch.device)  # refuses a DLA, and says that the CPU stands for a GPU
    return {}


def _capability(value) -> dict:
    if EngineCapability._from(value) is not EngineCapability.STANDARD:
        raise refusal(f"engine_capability={value!r}", "safety and DLA engines are TensorRT's", "leave it out")
    return {}


OPEN_SIZES = ("nonzero", "masked_select", "argwhere", "_unique2", "unique_dim", "unique_consecutive", "repeat_interleave.Tensor", "bincount")


def _data_dependent(value) -> dict:
    return {"torch_executed_ops": [f"aten.{name}" for name in OPEN_SIZES]} if value else {}


def _list_of(name, text):
    def options(value):
        return {name: [text(v) for v in ([value] if isinstance(value, str) else value)]} if value else {}

    return options


def _when(name, made):
    return lambda value: {name: made} if value else {}


def _dryrun(value) -> dict:
    return {"dryrun": teller(None if value is True else value)} if value else {}


def _timing_cache(value) -> dict:
    return {"timing_cache": os.fspath(value)} if value else {}


def _rule(name, read=lambda value: value):
    """A part of autocast, which is put together from all of them."""
    return lambda value: {"autocast_rules": [(name, read(value))]}


def _low_type(value):
    if value is None:
        return None
    found = _dtype._from(value).to(torch.dtype)
    if found not in (torch.float16, torch.bfloat16):
        raise OptionError(f"autocast_low_precision_type is {value!r}", remedy="torch.float16, torch.bfloat16, or None to cast nothing")
    return found


def _low_types(value):
    given = value if isinstance(value, (set, frozenset, list, tuple)) else (value,)
    found = [t for t in (torch.float16, torch.bfloat16) if any(v is t or v is _dtype._from(t) for v in given)]
    return found[0] if found else None


def _texts(value):
    return sorted((value,) if isinstance(value, str) else value or ())


def _operators(value):
    return sorted(operator_name(v) for v in ((value,) if isinstance(value, str) else value or ()))


def _autocast(rules: dict) -> dict:
    """The option autocast from the rules given."""
    dtype = rules.get("dtype") if rules.get("enabled") else rules.get("enabled_precisions")
    if dtype is None:
        return {}
    exclude = [f"module:(?:{text}).*" for text in rules.get("nodes", ())] + [name.replace(".", "\\.") for name in rules.get("ops", ())]
    limits = {name: rules[name] for name in ("max_output", "max_reduction", "calibration") if rules.get(name) is not None}
    return {"autocast": Autocast(dtype, exclude, results="low" if rules.get("enabled") else "model", **limits)}


# ---- the table

_NO_KNOB = "ingot has no such knob; kernels are chosen by a cost model, and timed within optimization_level's seconds"
_OWN = "nothing depends on it here"

TABLE = (
    _differs("workspace_size", 0, "memory of a call is planned when it is compiled; there is no pool to limit"),
    _works("min_block_size", 5, "least operators of an engine segment (a model that is one engine may have fewer); float('inf') is a dry run (option min_block_size)", _block_size),
    _works("torch_executed_ops", set, "operators that stay in torch (option torch_executed_ops)", _list_of("torch_executed_ops", operator_name)),
    _works("pass_through_build_failures", False, "torch.compile: False runs a graph that cannot be built as it was, with a warning; True raises"),
    _differs("max_aux_streams", None, "an engine works in the caller's stream alone"),
    _differs("version_compatible", False, "plans of older versions are always read", quiet=(True,)),
    _works("optimization_level", None, "seconds for timing alternatives of matrix products on the GPU at hand: 0, 0, 5, 20, 60, 300 for levels 0 to 5 (option build_seconds)", _optimization_level),
    _differs("truncate_double", False, "float64 stays float64 inside: exact, but slower than float32"),
    _differs("use_complex_decomposition", False, "complex numbers are computed as pairs of real ones, whatever this says; an operator without a rule runs in torch", quiet=(True, None)),
    _differs("use_fast_partitioner", True, "there is one partitioner"),
    _differs("enable_experimental_decompositions", False, "operators are expanded by ingot's own table"),
    _works("device", None, "checked; a model runs where its tensors are, one without any on this device (by default the GPU, if there is one). Without a GPU a CUDA device means the CPU, which is logged once", _device),
    _works("require_full_compilation", False, 'an operator that would run in torch is an error (option fallback="error"); no effect in torch.compile', _when("fallback", "error")),
    _works("disable_tf32", False, 'matrix products of float32 on a GPU: False allows TF32, True does not (option matmul_precision)', lambda v: {"matmul_precision": "ieee" if v else "tf32"}),
    _differs("assume_dynamic_shape_support", False, "every operator takes dynamic sizes", quiet=(True,)),
    _not_yet("sparse_weights", False, "there are no kernels for 2:4 sparsity; weights are used as dense"),
    _works("engine_capability", EngineCapability.STANDARD, "STANDARD; SAFETY and DLA_STANDALONE are refused", _capability),
    _differs("num_avg_timing_iters", 1, _NO_KNOB),
    _refused("dla_sram_size", 1048576, "there is no DLA here", remedy="leave it out"),
    _refused("dla_local_dram_size", 1073741824, "there is no DLA here", remedy="leave it out"),
    _refused("dla_global_dram_size", 536870912, "there is no DLA here", remedy="leave it out"),
    _works("dryrun", False, "prints what would run where, in upstream's form, and builds nothing; a path also gets ingot's own report (JSON for *.json) (option dryrun)", _dryrun),
    _differs("hardware_compatible", False, "a plan holds its graph; on a GPU that it has no code for, code is compiled when the plan is loaded"),
    _works("timing_cache_path", None, "a file of timings (option timing_cache); without it none are kept", _timing_cache),
    _works("lazy_engine_init", False, "a TorchTensorRTModule made of bytes loads them when setup_engine() is called; the engines of a compiled module are there at once"),
    _works("cache_built_engines", False, "keeps plans (option cache, which is on in ingot itself), whatever immutable_weights says", _when("cache", ["write"])),
    _works("reuse_cached_engines", False, "uses plans that were kept, with the weights at hand (option cache)", _when("cache", ["read"])),
    _differs("use_fp32_acc", False, "half-precision matrix products are always summed in float32", quiet=(True,)),
    _differs("refit_identical_engine_weights", False, "weights can be replaced by others of the same shapes at any time; LoRA adapters can be added (ingot.Module.add_lora)"),
    _works("strip_engine_weights", False, 'bytes of an engine leave the values of weights out (option weights="strip"). Engines of a compiled module have zeros for weights until refit_module_weights; in torch.compile, which has no refit, they keep the model\'s', _when("weights", "strip")),
    _differs("immutable_weights", True, "weights can always be replaced, at no cost", quiet=(False,)),
    _works("enable_weight_streaming", False, "weights may take nine tenths of the free GPU memory, the others are streamed (option memory_bytes=-1); budgets can be set without it too", _when("memory_bytes", -1)),
    _refused("enable_cross_compile_for_windows", False, "ingot has no Windows runtime", remedy="compile on the machine that runs it"),
    _differs("tiling_optimization_level", "none", _NO_KNOB),
    _differs("l2_limit_for_tiling", -1, _NO_KNOB),
    _differs("use_distributed_mode_trace", False, "the graph is captured as it is; collectives stay in torch"),
    _differs("offload_module_to_cpu", False, "the model stays where it is, since an engine reads its tensors; after compiling, model.cpu() leaves on the GPU only what the engine reads"),
    _works("enable_autocast", False, "matrix products, convolutions, attention and the operators after them compute in autocast_low_precision_type; softmax, norms and large sums in float32. A float32 result has the low type, unless a rule or a region of torch.autocast keeps its operator (in torch.compile the model's type; option autocast)", _rule("enabled", bool)),
    _works("autocast_low_precision_type", None, "float16 or bfloat16; None casts nothing", _rule("dtype", _low_type)),
    _works("autocast_excluded_nodes", set, "regular expressions for the beginning of the path of a module around the node", _rule("nodes", _texts)),
    _works("autocast_excluded_ops", set, "operators that stay in float32", _rule("ops", _operators)),
    _works("autocast_max_output_threshold", 512, "with calibration, a node with a larger |output| stays in float32", _rule("max_output"), quiet=(512.0,)),
    _works("autocast_max_depth_of_reduction", None, "a matrix product that sums more terms stays in float32", _rule("max_reduction")),
    _works("autocast_calibration_dataloader", None, "inputs to run the model on, each a tensor, a sequence of positional inputs, or a dict; refused in torch.compile", _rule("calibration")),
    _differs("enable_resource_partitioning", False, "a build takes at most 1.3 times the bytes of the weights in addition to them (0.3 for weights on a GPU; docs/compile_time.md), so it is not cut into smaller ones. Where that is more than cpu_memory_budget leaves, it is an InputError (a ValueError) before anything is built"),
    _works("cpu_memory_budget", None, "with enable_resource_partitioning: bytes that the process may hold while it builds, those that it holds already included; None means what the host has left"),
    _works("dynamically_allocate_resources", False, 'scratch memory is released after each call (option arena="call")', _when("arena", "call")),
    _differs("decompose_attention", False, "attention is recognised, fused where it pays, and exact either way"),
    _differs("disabled_constant_fold_exclusions", set, "there are no exclusion rules to switch off"),
    _differs("attn_bias_is_causal", True, "an attention mask is never dropped, whatever this says", quiet=(False,)),
    _works("fallback_data_dependent_ops", False, "operators whose sizes come from data stay in torch (option torch_executed_ops)", _data_dependent),
    # Options of calls.
    _works("torch_executed_modules", None, "modules that stay in torch, by path or class (option torch_executed_modules)", _list_of("torch_executed_modules", module_name), group="call"),
    _works("engine_cache_dir", None, "the folder of cached plans; without it the user's own, never a shared one (option cache_dir)", lambda v: {"cache_dir": os.fspath(v)} if v else {}, group="call"),
    _works("engine_cache_size", 5368709120, "bytes; the least recently used plans are removed first (option cache_bytes)", lambda v: {"cache_bytes": v} if v != 5368709120 else {}, group="call"),
    _works("custom_engine_cache", None, "a BaseEngineCache, which stores bytes under a name; its bytes are trusted as code", group="call"),
    _differs("use_python_runtime", False, "there is one runtime", group="call", quiet=(True, None)),
    # Settings of older versions.
    _differs("enabled_precisions", None, "{torch.half} or {torch.bfloat16} turns on autocast to that type, and results keep the model's types; others change nothing", _rule("enabled_precisions", _low_types), group="older", quiet=({torch.float32}, {_dtype.f32}, [torch.float32], [_dtype.f32], (torch.float32,), set(), torch.float32)),
    _works("truncate_long_and_double", False, "the older name of truncate_double", group="older"),
    _works("truncate_and_double", False, "an older name of truncate_double", group="older"),
    _differs("use_explicit_typing", None, "the model's types always hold", group="older", quiet=(True, False)),
    _works("debug", False, "raises the log level", group="older"),
    _works("refit", False, "the older name of immutable_weights=False", group="older"),
    _works("make_refittable", False, "the older name of immutable_weights=False", group="older"),
    _differs("runtime_cache_path", None, "there is no runtime cache", group="older"),
    _differs("dynamic_shapes_kernel_specialization_strategy", None, "one set of kernels serves a range of sizes", group="older"),
    _differs("cuda_graph_strategy", None, "CUDA graphs are recorded for each set of sizes (option cuda_graphs)", group="older"),
    _differs("lower_precision", None, "the model's types always hold", group="older"),
)  # fmt: skip

ROWS: dict[str, Setting] = {row.name: row for row in TABLE}


def _field(row):
    return (row.name, Any, dataclasses.field(default_factory=row.default) if isinstance(row.default, type) else dataclasses.field(default=row.default))


def _restored(self, state):
    """Sets the state from a pickle. Fields that an older pickle lacks get their defaults."""
    vars(self).update({row.name: row.initial for row in TABLE if row.group == "field"} | state)


CompilationSettings = dataclasses.make_dataclass("CompilationSettings", [_field(row) for row in TABLE if row.group == "field"], namespace={"__setstate__": _restored})
CompilationSettings.__module__ = __name__
CompilationSettings.__doc__ = "The settings of a build: a dataclass of all fields of the table in docs/migration.md, with their defaults."


class Settings:
    """The settings that a script gives, read once.

    values: the given settings by name. `compilation` is the CompilationSettings. An unknown name is logged as a warning with the nearest known one.
    """

    _ALIASES = {"truncate_long_and_double": "truncate_double", "truncate_and_double": "truncate_double"}

    def __init__(self, given: Mapping[str, Any], defaults: CompilationSettings | None = None):
        self.values = {}
        if defaults is not None:
            self.values.update({f.name: getattr(defaults, f.name) for f in dataclasses.fields(defaults)})
        if "truncate_double" in given and any(given.get(alias) for alias in self._ALIASES):
            raise InputError("truncate_double is given twice, by its own name and an older one", remedy="give truncate_double alone")
        for name, value in given.items():
            if name not in ROWS:
                near = difflib.get_close_matches(name, ROWS, 1)
                log.warning("setting %r is not known and does nothing%s", name, f"; do you mean {near[0]!r}?" if near else "")
            elif name == "debug":
                if value:
                    from .. import logging as levels

                    levels.set_level("debug")
            elif name in ("refit", "make_refittable"):
                if value:
                    self.values["immutable_weights"] = False
            else:
                self.values[self._ALIASES.get(name, name)] = value
        if self.get("require_full_compilation") and self.get("fallback_data_dependent_ops"):
            raise InputError("require_full_compilation and fallback_data_dependent_ops exclude one another", remedy="give one of them")

    def get(self, name):
        return self.values.get(name, ROWS[name].initial)

    @property
    def compilation(self):
        fields = {f.name for f in dataclasses.fields(CompilationSettings)}
        return CompilationSettings(**{name: value for name, value in self.values.items() if name in fields})

    def options(self) -> dict:
        """ingot's options. Says once what a setting means here, and raises UnsupportedError and OptionError for what cannot be."""
        found: dict = {}
        for row in TABLE:
            for name, value in row.options(self.get(row.name)).items():
                found[name] = [*found.get(name, ()), *value] if isinstance(value, list) else value
        found |= _autocast(dict(found.pop("autocast_rules", ())))
        found["cache"] = "".join(sorted(found.get("cache", ()))) or "off"  # "read", "write" or "readwrite"
        if found.get("dryrun"):
            found.pop("min_block_size", None)
        elif found.get("fallback") == "error":
            found["min_block_size"] = 1  # one engine of any size
        return found


def settings_are_compatible(one: CompilationSettings, other: CompilationSettings):
    """Whether two builds with these settings give the same engines, and the names of the fields in which they do not."""
    different = {row.name for row in TABLE if row.group == "field" and row.status == "works" and row.to is not None and row.to(getattr(one, row.name)) != row.to(getattr(other, row.name))}
    return not different, different
