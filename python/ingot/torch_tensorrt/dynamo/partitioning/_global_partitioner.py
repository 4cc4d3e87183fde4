"""A path that scripts import."""

from . import TorchTensorRTOperatorSupport, global_partition

__all__ = ["TorchTensorRTOperatorSupport", "global_partition"]
