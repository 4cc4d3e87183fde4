"""Passes that the user adds."""

from ._aten_lowering_pass import (
    ATEN_LOWERING_PASSES,
    _aten_lowering_pass,
    _remove_lowering_pass,
    dump_lowering_passes,
    post_lowering,
    pre_export_lowering,
    remove_num_users_is_0_nodes,
    repair_input_aliasing,
    with_settings,
)

__all__ = [
    "ATEN_LOWERING_PASSES", "_aten_lowering_pass", "_remove_lowering_pass", "dump_lowering_passes", "post_lowering", "pre_export_lowering",
    "remove_num_users_is_0_nodes", "repair_input_aliasing",
]  # fmt: skip
