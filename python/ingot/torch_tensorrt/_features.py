"""`ENABLED_FEATURES`: flags that scripts check before they use a part of the API."""

from __future__ import annotations

from collections import namedtuple

FeatureSet = namedtuple(
    "FeatureSet",
    "torchscript_frontend torch_tensorrt_runtime dynamo_frontend fx_frontend refit qdp_plugin windows_cross_compile tensorrt_rtx trtllm_for_nccl native_trt_collectives complex_decomposition",
)
# torch_tensorrt_runtime is the C++ runtime that provides torch.classes.tensorrt; ingot has its own runtime.
ENABLED_FEATURES = FeatureSet(
    torchscript_frontend=True,
    torch_tensorrt_runtime=False,
    dynamo_frontend=True,
    fx_frontend=False,
    refit=True,
    qdp_plugin=False,
    windows_cross_compile=False,
    tensorrt_rtx=False,
    trtllm_for_nccl=False,
    native_trt_collectives=False,
    complex_decomposition=False,
)


def has_complex_decomposition() -> bool:
    """Whether torch's own pass for complex numbers is used. It is not: ingot's compiler makes pairs of real numbers."""
    return ENABLED_FEATURES.complex_decomposition
