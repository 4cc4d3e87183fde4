"""Checks of the machine and of TensorRT that scripts make before they use a feature. There is no TensorRT here, and ingot does not run on Jetson."""

from __future__ import annotations


def is_tensorrt_version_supported(min_version: str) -> bool:
    """Whether TensorRT of this version is installed: always False."""
    return False


is_tensorrt_rtx_version_supported = is_tensorrt_version_supported


def is_orin() -> bool:
    return False


is_tegra_platform = is_thor = check_cross_compile_trt_win_lib = is_orin
