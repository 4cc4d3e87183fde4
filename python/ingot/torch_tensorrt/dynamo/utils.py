"""Helpers that scripts and tests import."""

from __future__ import annotations

import torch

from ...torch_internals.trees import pytree
from .._Device import Device
from .._Input import Given, Input
from ._symbol_bounds import extract_var_range_info  # noqa: F401

COSINE_THRESHOLD = 0.99
RTOL = 5e-3
ATOL = 5e-3
CPU_DEVICE = "cpu"


def cosine_similarity(gt_tensor: torch.Tensor, pred_tensor: torch.Tensor) -> float:
    """The cosine similarity of two tensors as flat vectors, with a complex number as two numbers. 1 if they are equal, 0 if exactly one is all zeros."""
    wide = torch.complex128 if gt_tensor.is_complex() or pred_tensor.is_complex() else torch.float64
    one, other = (t.detach().flatten().to("cpu", wide) for t in (gt_tensor, pred_tensor))
    if torch.equal(one, other):
        return 1.0
    if not one.any() or not other.any():
        return 0.0
    if wide.is_complex:
        one, other = torch.view_as_real(one).flatten(), torch.view_as_real(other).flatten()
    return torch.nn.functional.cosine_similarity(one, other, dim=0, eps=0.0).item()


def check_output_equal(output1, output2, rtol=RTOL, atol=ATOL) -> bool:
    """Whether two results have the same structure and close values."""
    (one, spec), (other, other_spec) = pytree.tree_flatten(output1), pytree.tree_flatten(output2)
    if spec != other_spec:
        return False
    same = lambda a, b: a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=rtol, atol=atol) if isinstance(a, torch.Tensor) else a == b  # noqa: E731
    return all(same(a, b) for a, b in zip(one, other))


def get_model_device(module: torch.nn.Module) -> torch.device:
    """The device of a module's first parameter or buffer; the current device for a module without any."""
    tensors = [*module.parameters(), *module.buffers()] if isinstance(module, torch.nn.Module) else [*module.state_dict.values()]
    return tensors[0].device if tensors else Device._current_device().to(torch.device)


def to_torch_device(device=None) -> torch.device:
    """The torch.device of a Device, a torch.device, a string or None (the current device). It does not check that the device exists."""
    if device is None or isinstance(device, Device) and device.gpu_id < 0:
        return Device._from(device).to(torch.device)
    return torch.device("cuda", device.gpu_id) if isinstance(device, Device) else torch.device(device)


def to_torch_tensorrt_device(device=None) -> Device:
    return Device._from(device)


def get_torch_tensor(input, device=None, mode="opt_shape"):
    """One tensor of get_torch_inputs."""
    return get_torch_inputs(input, device, mode)


def get_torch_inputs(inputs, device=None, mode="opt_shape"):
    """Tensors for Inputs, on a device, in the structure of the inputs: their examples, or random ones of the mode's shape. For a shape tensor a list of its numbers."""
    where = Device._from(device).to(torch.device)
    if isinstance(inputs, dict):
        return {name: get_torch_inputs(v, where, mode) for name, v in inputs.items()}
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(get_torch_inputs(v, where, mode) for v in inputs)
    if isinstance(inputs, Input):
        field = None if inputs.shape_mode is Input._ShapeMode.STATIC else mode or "opt_shape"
        if inputs.is_shape_tensor and field is not None:
            return list(inputs.shape[field])
        inputs = inputs._given if inputs._given is not None else inputs.example_tensor(field)
    return inputs.to(where) if isinstance(inputs, torch.Tensor) else inputs


def prepare_inputs(inputs, disable_memory_format_check=False):
    """Inputs for tensors and numbers, in the structure of the inputs. Inputs and None stay."""
    if isinstance(inputs, (torch.Tensor, bool, int, float)):
        return Input.from_tensor(torch.as_tensor(inputs), disable_memory_format_check)
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(prepare_inputs(v, disable_memory_format_check) for v in inputs)
    if isinstance(inputs, dict):
        return {name: prepare_inputs(v, disable_memory_format_check) for name, v in inputs.items()}
    Given((inputs,))  # refuses invalid inputs
    return inputs
