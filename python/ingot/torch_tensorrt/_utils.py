"""Questions about the machine and TensorRT that scripts ask before they use a feature: there is no TensorRT here, and ingot runs on no Jetson."""

from __future__ import annotations


def is_tensorrt_version_supported(min_version: str) -> bool:
    """Whether TensorRT is there in this version: never."""
    return False


is_tensorrt_rtx_version_supported = is_tensorrt_version_supported


def is_orin() -> bool:
    return False


is_tegra_platform = is_thor = check_cross_compile_trt_win_lib = is_orin
