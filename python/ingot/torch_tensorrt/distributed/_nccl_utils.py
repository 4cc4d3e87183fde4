"""NCCL, which torch finds by itself."""

from ._distributed import set_distributed_mode


def setup_nccl_for_torch_tensorrt():
    """Does nothing: torch finds NCCL."""
    set_distributed_mode()
