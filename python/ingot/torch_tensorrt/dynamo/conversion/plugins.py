"""`dynamo.conversion.plugins`. Nothing is generated: an operator with a kernel of `ingot.register_kernel` (or torch_tensorrt.kernels) runs in the engine; any other runs in torch, between engines."""

from __future__ import annotations

import torch

from ....capture import external
from ....errors import InputError
from ..._said import once


def custom_op(op_name: str, capability_validator=None, priority=None, supports_dynamic_shapes=False, requires_output_allocator=False, *, use_aot_if_available=True):
    """Checks that the operator "namespace::name" is registered with torch. If it has no kernel of ingot.register_kernel, logs once that it runs in torch. Its fake kernel gives its
    sizes. Raises InputError."""
    namespace, _, name = op_name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name else None
    if packet is None:
        raise InputError(f"there is no operator {op_name!r}", remedy="register it with torch.library.custom_op first")
    if not any(external.of(getattr(packet, overload)) for overload in packet.overloads()):
        once(f"plugin {op_name}", f"{op_name} runs in torch, between engines: no plugin is made of it (ingot.register_kernel puts its kernel into the engine)")


def generate_plugin(plugin_id: str):
    custom_op(plugin_id)


generate_plugin_converter = custom_op
