"""`dynamo.runtime`: engines as modules."""

from ...runtime._settings import RuntimeSettings
from ._MutableTorchTensorRTModule import MutableTorchTensorRTModule, RefitFlag, RefitState
from ._ResourceAllocationStrategy import ResourceAllocationStrategy
from ._TorchTensorRTModule import TorchTensorRTModule

PythonTorchTensorRTModule = TorchTensorRTModule  # there is one runtime

__all__ = ["MutableTorchTensorRTModule", "PythonTorchTensorRTModule", "RefitFlag", "RefitState", "ResourceAllocationStrategy", "RuntimeSettings", "TorchTensorRTModule"]
