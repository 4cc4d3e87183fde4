"""`torch_tensorrt.distributed`: collectives stay in torch, with the groups that they name, so nothing has to be set up."""

from ._distributed import distributed_context, set_distributed_mode
from ._nccl_utils import setup_nccl_for_torch_tensorrt

__all__ = ["distributed_context", "set_distributed_mode", "setup_nccl_for_torch_tensorrt"]
