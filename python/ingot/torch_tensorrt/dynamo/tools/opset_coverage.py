"""Lists which of torch's operators engines have: `python -m torch_tensorrt.dynamo.tools.opset_coverage`."""

from __future__ import annotations

import collections
import json
import sys

import torch

from ingot.torch_internals.operators import OpOverload, OpOverloadPacket, schema_of  # by its full name: this runs as a program of the package torch_tensorrt too

from ..conversion import DYNAMO_CONVERTERS
from ..lowering import torch_trt_decompositions

CONVERTED, LOWERED, FALLBACK = "CONVERTED", "LOWERED", "FALLBACK"
OpsetCoverage = collections.namedtuple("OpsetCoverage", "support_status support_count")


def get_aten_ops() -> list[OpOverload]:
    """The core operators of torch's `aten`."""
    found = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if isinstance(packet, OpOverloadPacket):
            found += [o for o in (getattr(packet, n) for n in packet.overloads()) if torch.Tag.core in o.tags]
    return found


def get_coverage_status(target) -> str:
    """CONVERTED: an engine has the operator. LOWERED: a user's decomposition replaces it. FALLBACK: it runs in torch."""
    return LOWERED if target in torch_trt_decompositions else CONVERTED if target in DYNAMO_CONVERTERS else FALLBACK


def opset_coverage(opset, converter_registry=None, decomposition_registry=None) -> OpsetCoverage:
    """The status of each operator by its name, and the count of each status."""
    status = {str(target): {"schema": str(schema_of(target)) if isinstance(target, OpOverload) else "", "status": get_coverage_status(target)} for target in opset}
    return OpsetCoverage(status, dict(collections.Counter(entry["status"] for entry in status.values())))


if __name__ == "__main__":
    json.dump(opset_coverage(get_aten_ops()).support_status, sys.stdout, indent=1)
