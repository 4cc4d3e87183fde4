"""src/ops/absent.def names each overload of ATen for inference that has no operator definition, and says which of them torch decomposes."""

import pytest
import torch
from torch._export.utils import _is_cia_op, _materialize_cpp_cia_ops
from torch.export.exported_program import default_decompositions

from ingot.engine import _library

pytestmark = pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the list is that of torch 2.13")
ADVICE = "edit src/ops/absent.def"


def overloads():
    """ATen's overloads for inference: those that write nothing and compute no gradient."""
    _materialize_cpp_cia_ops()
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None) if space == "aten" else None
        if op is not None and not op._schema.is_mutable and "backward" not in packet and "_grad" not in packet:
            yield op


def test_the_list_is_complete():
    rows, listed = {row["name"] for row in _library.ops()}, {op["name"] for op in _library.absent_ops()}
    lacking = {str(op) for op in overloads()} - rows
    assert listed - lacking == set(), f"they are defined, or torch has none of that name: {ADVICE}"
    assert lacking - listed == set(), ADVICE


def test_composites_are_those_of_torch():
    decompositions = default_decompositions()
    groups = {op["name"]: op["group"] for op in _library.absent_ops()}
    for op in overloads():
        if str(op) in groups:
            decomposed = (op in decompositions or _is_cia_op(op)) and torch.Tag.nondeterministic_seeded not in op.tags
            assert (groups[str(op)] == "composite") == decomposed, f"{op}: {ADVICE}"


def test_each_has_a_reason():
    assert all(op["reason"] for op in _library.absent_ops()) and len({op["name"] for op in _library.absent_ops()}) == len(_library.absent_ops())
