"""The device of a model, and the target of its engine. With `target="auto"` the target is the device of the model's tensors."""

from __future__ import annotations

import re

import torch

from ..engine import _library
from ..errors import InputError, OptionError
from .. import autocast_options

CPU = torch.device("cpu")
HOST = ("cpu", "reference")  # targets whose engines run on tensors of the CPU


def of_slots(slots) -> torch.device:
    """The device of a model: the GPU of its weights and inputs, or the CPU if all of them are there. Tensors on the CPU may accompany a GPU."""
    found, named = CPU, ""
    for slot in slots:
        value = slot.tensor if slot.tensor is not None else slot.node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
            continue
        what = f"{slot.kind if slot.kind in ('input', 'value') else 'weight'} {slot.name}"
        if value.device.type != "cuda":
            raise InputError(f"{what} is on {value.device}; engines run on the CPU and on NVIDIA GPUs", remedy="model.cpu() or model.cuda()")
        here = torch.device("cuda", value.device.index if value.device.index is not None else torch.cuda.current_device())
        if found.type == "cuda" and here != found:
            raise InputError(f"{named} is on {found}, but {what} is on {here}; an engine runs on one GPU", remedy=f'model.to("{found}"), and inputs there')
        found, named = here, what
    return found


_GPU = re.compile(r"cuda(:\d+)?")  # a GPU that torch sees here


def written(options: dict) -> dict:
    """The options with each torch.device and dtype as a string. A device as target becomes the architecture of its GPU."""
    made = autocast_options.written(options)
    if isinstance(made.get("device"), torch.device):
        made["device"] = str(made["device"])
    given = made.get("target")
    if isinstance(given, (str, torch.device)):
        given = given.split(",") if isinstance(given, str) else [given]
    if isinstance(given, (list, tuple, set)):
        made["target"] = [_target(torch.device(t.strip())) if isinstance(t, str) and _GPU.fullmatch(t.strip()) else _target(t) if isinstance(t, torch.device) else t for t in given]
    elif given is not None:
        raise OptionError(f"option target is {given!r}, not a name", remedy='give "cpu", a GPU\'s architecture such as "cuda:sm_90", a torch.device, or a list of these')
    return made


def _target(device: torch.device) -> str:
    if device.type not in ("cpu", "cuda"):
        raise OptionError(f"option target is {str(device)!r}; engines run on the CPU and on NVIDIA GPUs", remedy='give "cpu", or a GPU\'s architecture such as "cuda:sm_90"')
    if device.type == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"option target is {str(device)!r}, but torch finds no GPU here whose architecture that would be", remedy='name the architecture, such as "cuda:sm_90"')
    return architecture(device)


def targets(options: dict) -> list[str]:
    given = options.get("target", "auto")
    return [t.strip() for t in given.split(",")] if isinstance(given, str) else [str(t) for t in given]


def runs(targets: list[str], device: torch.device) -> bool:
    """Whether one of the targets is for the device."""
    return any(t in HOST if device.type == "cpu" else t.startswith("cuda:") for t in targets)


def placed(options: dict, device: torch.device, for_file: bool = False) -> dict:
    """The options with target and device resolved by the model's own device. The targets must include that device. With for_file, a model on the CPU may also be
    compiled for a GPU elsewhere, only to be saved."""
    _library.Options(options)  # refuses unknown names and bad values
    asked = targets(options)
    where = str(device)
    if options.get("device", "auto") not in ("auto", where, device.type):
        raise OptionError(f"option device is {options['device']!r}, but the model is on {where}", remedy="move the model there, then compile it")
    if asked == ["auto"]:
        asked = [architecture(device)]
    elif not runs(asked, device) and not (for_file and device.type == "cpu"):
        raise OptionError(
            f"option target is {','.join(asked)!r}, but the model is on {where}",
            remedy="model.cuda() for a GPU that is here; ingot.compile and ingot.save for a file" if device.type == "cpu" else "model.cpu(), or leave the target out",
        )
    if device.type == "cpu" and "reference" in asked and "cpu" not in asked:
        where = "reference"
    made = {**options, "target": asked, "device": where}
    if any(t.startswith("cuda:") for t in asked) and options.get("matmul_precision", "torch") == "torch":
        if options.get("convolution_precision", "torch") == "torch":
            made["convolution_precision"] = "tf32" if _torch_takes_tf32(torch.backends.cudnn, torch.backends.cudnn.conv) else "ieee"
        if _torch_takes_tf32(torch.backends.cuda.matmul, torch.backends.cuda.matmul):
            made["matmul_precision"] = "tf32"
    return made


def _torch_takes_tf32(settings, newer) -> bool:
    """torch's TF32 setting for matrix products or for convolutions (on by default for convolutions)."""
    try:
        return settings.allow_tf32
    except RuntimeError:  # it was set by its newer name, and reading the older one then fails
        return newer.fp32_precision == "tf32"


def architecture(device: torch.device) -> str:
    return "cpu" if device.type == "cpu" else "cuda:sm_{}{}".format(*torch.cuda.get_device_capability(device))

