"""`torch_tensorrt.Device`: the device that a model is compiled for."""

from __future__ import annotations

import torch

from ..errors import UnsupportedError
from ._enums import DeviceType
from ._said import once


class Device:
    """Device("cuda:1"), Device("gpu:1"), Device("cpu"), Device("dla:0"), Device(gpu_id=1) or Device(dla_core=0).

    Attributes: device_type, gpu_id (-1 for the CPU), dla_core (-1 if it is not a DLA), allow_gpu_fallback.

    An ingot engine runs on the device of the model's tensors, so a Device only states what is expected. Without a GPU a CUDA device means the CPU, which is logged once.
    Compiling for a DLA is an UnsupportedError. Raises TypeError and ValueError for anything that is not a device.
    """

    def __init__(self, device=None, *, gpu_id=None, dla_core=None, allow_gpu_fallback=False):
        if not isinstance(allow_gpu_fallback, bool):
            raise TypeError(f"allow_gpu_fallback is {allow_gpu_fallback!r}, not a bool")
        if device is not None and (gpu_id is not None or dla_core is not None):
            raise ValueError(f"give either a device ({device!r}) or gpu_id and dla_core")
        if dla_core is not None and dla_core >= 0:
            device = f"dla:{dla_core}"
        elif gpu_id is not None:
            device = f"cuda:{int(gpu_id)}"
        self.allow_gpu_fallback = allow_gpu_fallback
        self.device_type, self.gpu_id, self.dla_core = _parsed(device)

    @classmethod
    def _current_device(cls) -> "Device":
        return cls(gpu_id=torch.cuda.current_device()) if torch.cuda.is_available() else cls("cpu")

    @classmethod
    def _from_torch_device(cls, device: torch.device) -> "Device":
        return cls(str(device))

    @classmethod
    def _from(cls, d) -> "Device":
        """A Device from a Device, a torch.device, a string or None (the current one)."""
        return d if isinstance(d, Device) else cls._current_device() if d is None else cls(str(d) if isinstance(d, torch.device) else d)

    def to(self, t=torch.device) -> torch.device:
        """The torch.device: the CPU for a GPU on a machine that has none."""
        if t is not torch.device:
            raise TypeError(f"a Device converts to torch.device, not to {t!r}")
        if self.device_type is DeviceType.DLA:
            raise UnsupportedError(f"the device dla:{self.dla_core} is a DLA, which ingot does not run on", remedy='Device("cuda:0"), or leave the device out')
        if self.device_type is DeviceType.GPU and torch.cuda.is_available():
            return torch.device("cuda", self.gpu_id)
        if self.device_type is DeviceType.GPU:
            once("no gpu", f"there is no GPU here: device cuda:{self.gpu_id} stands for the CPU")
        return torch.device("cpu")

    def __eq__(self, other):
        return isinstance(other, Device) and repr(self) == repr(other)

    def __hash__(self):
        return hash(repr(self))

    def __repr__(self):
        names = {DeviceType.CPU: "cpu", DeviceType.DLA: f"dla:{self.dla_core}"}
        return f"Device({names.get(self.device_type, f'cuda:{self.gpu_id}')!r})"


def _parsed(device):
    """Type, GPU and DLA core."""
    if device is None:
        device = f"cuda:{torch.cuda.current_device()}" if torch.cuda.is_available() else "cpu"
    if isinstance(device, torch.device):
        device = str(device)
    if not isinstance(device, str):
        raise TypeError(f"a device is a string such as \"cuda:0\" or a torch.device, not {device!r}")
    kind, _, index = device.lower().partition(":")
    if kind not in ("cuda", "gpu", "cpu", "dla") or index and not index.isdigit():
        raise ValueError(f"{device!r} is not a device: give \"cuda:0\" or \"cpu\"")
    if kind == "cpu":
        return DeviceType.CPU, -1, -1
    return (DeviceType.DLA, 0, int(index or 0)) if kind == "dla" else (DeviceType.GPU, int(index or 0), -1)
