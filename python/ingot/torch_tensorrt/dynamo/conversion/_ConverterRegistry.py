"""Users' converters. One that composes torch's operators is applied as a decomposition. One that builds TensorRT layers is refused when it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import torch

from ....engine import _library
from ....errors import UnsupportedError
from ....torch_internals.operators import OpOverload, OpOverloadPacket
from ..lowering._decompositions import overloads_of

REMEDY = "compose torch's operators in it, as a decomposition does, or leave it out: what no engine has runs in torch"


class ConverterPriority(Enum):
    """HIGH is tried first."""

    STANDARD = auto()
    HIGH = auto()


class CallingConvention(Enum):
    LEGACY = auto()
    CTX = auto()


class ConversionContext:
    """The `ctx` of a converter. compilation_settings: the settings of the build. `net` and the rest of TensorRT's network are refused."""

    def __init__(self, compilation_settings=None):
        self.compilation_settings = compilation_settings

    def __getattr__(self, name):
        raise UnsupportedError(f"a converter asks for ctx.{name}: it builds layers of TensorRT, which ingot does not have", remedy=REMEDY)


@dataclass(frozen=True)
class ConverterSupport:
    """A registered converter, and when it applies."""

    converter_implementation: Callable
    capability_validator: Callable | None = None
    supports_dynamic_shapes: bool = False
    requires_output_allocator: bool = False
    requires_native_multidevice: bool = False
    priority: ConverterPriority = ConverterPriority.STANDARD

    def takes(self, node: torch.fx.Node, settings) -> bool:
        return self.capability_validator is None or bool(self.capability_validator(node, settings))


class ConverterRegistry:
    """registry: OpOverload to the converters registered for it, those of HIGH priority first. Operators that ingot has itself are in `keys` and `in` too."""

    def __init__(self):
        self.registry: dict[OpOverload, list[ConverterSupport]] = {}
        self.compilation_settings, self.disallowed_targets = None, set()

    def set_compilation_settings(self, settings):
        self.compilation_settings = settings

    def set_disallowed_targets(self, targets):
        """Sets operators that no converter may handle. They are stored and shown by `in`; a build reads torch_executed_ops instead."""
        self.disallowed_targets = set(targets)

    def add(self, key, support: ConverterSupport):
        for overload in overloads_of(key):
            candidates = self.registry.setdefault(overload, [])
            candidates.insert(0 if support.priority is ConverterPriority.HIGH else len(candidates), support)

    def decompositions(self, graph: torch.fx.Graph, settings) -> dict:
        """The converters as decompositions: for each operator of the graph the first one whose validator takes all of its nodes."""
        found = {}
        for node in graph.nodes:
            found.setdefault(node.target, []).append(node)
        return {
            overload: functools.partial(_apply, support.converter_implementation, overload, settings)
            for overload, candidates in self.registry.items()
            if overload in found and overload not in self.disallowed_targets
            for support in [next((s for s in candidates if all(s.takes(n, settings) for n in found[overload])), None)]
            if support is not None
        }

    def get_unvalidated(self, key, default=None):
        return self.registry.get(key, default)

    def unique_targets(self) -> set:
        return set(self.registry) | native_targets()

    keys = unique_targets

    def __contains__(self, key) -> bool:
        """Whether a node, or an operator, runs in an engine: by ingot's table or a registered converter."""
        if isinstance(key, torch.fx.Node):
            key = key.target
        return key not in self.disallowed_targets and (key in self.registry or key in native_targets())

    def display_all_available_converters(self) -> str:
        return "\n".join(sorted(map(str, self.unique_targets())))


def _apply(converter, target, settings, *args, **kwargs):
    return converter(ConversionContext(settings), target, args, kwargs, str(target))


@functools.lru_cache(None)
def native_targets() -> frozenset:
    """The operators of ingot's table as torch's OpOverloads."""
    found = set()
    for entry in _library.ops():
        overload = torch.ops
        try:
            for part in entry["name"].split("."):
                overload = getattr(overload, part)
        except (AttributeError, RuntimeError):  # of a library that is not loaded
            continue
        found.add(overload.default if isinstance(overload, OpOverloadPacket) else overload)
    return frozenset(found)


DYNAMO_CONVERTERS = ConverterRegistry()
DYNAMO_ATEN_CONVERTERS = DYNAMO_CONVERTERS.registry


def dynamo_tensorrt_converter(key, *, enabled=True, capability_validator=None, priority=ConverterPriority.STANDARD, supports_dynamic_shapes=False, requires_output_allocator=False,
                              requires_native_multidevice=False):  # fmt: skip
    """A decorator for `converter(ctx, target, args, kwargs, name)`, which replaces the operator `key` in every later build.

    The converter is called with torch's (fake) tensors and has to compose torch's operators, like a decomposition. If it asks `ctx` for TensorRT's network, compiling a model with
    the operator is an UnsupportedError.
    """

    def register(converter):
        if enabled:
            DYNAMO_CONVERTERS.add(key, ConverterSupport(converter, capability_validator, supports_dynamic_shapes, requires_output_allocator, requires_native_multidevice, priority))
        return converter

    return register


def has_static_shapes(node: torch.fx.Node, settings=None) -> bool:
    return not node_has_dynamic_shapes(node)


def node_has_dynamic_shapes(node: torch.fx.Node) -> bool:
    """Whether sizes of a node's result or operands vary."""
    return any(_varies(n) for n in (node, *node.all_input_nodes))


def has_static_shapes_in_args(positions):
    """A validator: the sizes of these arguments are fixed."""
    return lambda node, settings=None: not any(_varies(node.args[i]) for i in positions if i < len(node.args))


def has_dynamic_shapes_in_args(positions):
    return lambda node, settings=None: any(_varies(node.args[i]) for i in positions if i < len(node.args))


def _varies(node) -> bool:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.SymInt) or isinstance(value, torch.Tensor) and any(isinstance(n, torch.SymInt) for n in value.shape)
