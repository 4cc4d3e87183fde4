"""Reads LoRA adapters: matrices by weight, a state dict of PEFT, diffusers or kohya's scripts, a file with one, or PEFT's folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from ctypes import c_char_p

import torch

from ..base import atomic
from ..engine._library import lib, text_of
from ..errors import FormatError, InputError, IoError


def read(adapter, config, weights) -> dict[str, tuple]:
    """For each weight: A, B, the scale of their product, and whether the product is transposed.

    adapter: {weight: (A, B, scale)}, a state dict of the adapter's tensors, or the path of a safetensors file or of a folder with adapter_model.safetensors.
    config: adapter_config.json as a dict or path, if it is not in the file's folder.
    weights: names of the model's weights, with which the adapter's names are matched.
    """
    if isinstance(adapter, (str, os.PathLike)):
        adapter, found = _file(os.fspath(adapter))
        config = config if config is not None else found
    if not isinstance(adapter, Mapping) or not adapter:
        raise InputError(f"an adapter is {type(adapter).__name__ if not isinstance(adapter, Mapping) else 'empty'}", remedy="give {weight: (A, B, scale)}, a state dict, or the path of a safetensors file")
    if not any(isinstance(value, torch.Tensor) for value in adapter.values()):
        return {name: _triple(name, value) for name, value in adapter.items()}
    if bad := [name for name, value in adapter.items() if not isinstance(value, torch.Tensor) or not isinstance(name, str)]:
        raise InputError(f"{bad[0]!r} is not a tensor by name, as others of the adapter are", remedy="give all weights as (A, B, scale), or a state dict of tensors")
    tensors, names = list(adapter.values()), list(adapter)
    found = {}
    for part in json.loads(text_of(lib().ingot_adapter_describe, _texts(names), len(names), _config(config), _texts(weights), len(weights))):
        down, up, at = tensors[part["down"]], tensors[part["up"]], part["alpha_tensor"]
        rank = down.shape[0] if down.dim() else 0
        if rank == 0:
            raise InputError(f"the adapter's {names[part['down']]!r} has no rows")
        alpha = _alpha(names[at], tensors[at]) if at is not None else part["alpha"] if part["alpha"] is not None else rank
        found[part["weight"]] = down, up, alpha / (rank**0.5 if part["by_root"] else rank), part["transposed"]
    return found


def _triple(name, value):
    if not isinstance(value, (tuple, list)) or len(value) != 3 or isinstance(value[2], bool) or not isinstance(value[2], (int, float)):
        raise InputError(f"what is given for weight {name!r} is not (A, B, scale)", remedy="A and B are tensors, scale is a number")
    return *value, False


def _alpha(name, tensor):
    if tensor.numel() != 1:
        raise InputError(f"the adapter's {name!r} has {tensor.numel()} elements, and is one number")
    return float(tensor)


def _texts(names):
    return (c_char_p * max(len(names), 1))(*(name.encode() for name in names))


def _config(config) -> bytes | None:
    if config is None or isinstance(config, bytes):
        return config
    if isinstance(config, (str, os.PathLike)):
        return _bytes(os.fspath(config))
    if hasattr(config, "to_dict"):  # peft.LoraConfig
        config = config.to_dict()
    try:
        return json.dumps(config, default=str).encode()
    except (TypeError, ValueError) as problem:
        raise InputError(f"the adapter's configuration is not that of adapter_config.json: {problem}") from None


def _bytes(path):
    try:
        with open(atomic.encoded(path), "rb") as file:
            return file.read()
    except OSError as problem:
        raise IoError(f"cannot read {path}: {problem.strerror}", remedy=atomic.REMEDIES.get(problem.errno, "")) from None


def _file(path):
    """The tensors of a file, and its configuration's text."""
    if os.path.isdir(path):
        path = os.path.join(path, "adapter_model.safetensors")
    try:
        import safetensors
    except ModuleNotFoundError:
        raise InputError("a file of safetensors needs that package, which is not installed", remedy="pip install safetensors, or give the adapter's state dict") from None
    _bytes_at_all(path)
    try:
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            metadata = file.metadata() or {}
    except (safetensors.SafetensorError, KeyError, AttributeError, ValueError) as problem:
        raise FormatError(f"{path} is not a safetensors file that can be read: {problem}", remedy="give a file that safetensors wrote") from None
    path_of_config = os.path.join(os.path.dirname(path), "adapter_config.json")
    if os.path.exists(path_of_config):
        return tensors, _bytes(path_of_config)
    return tensors, metadata["lora_adapter_metadata"].encode() if "lora_adapter_metadata" in metadata else None


def _bytes_at_all(path):
    try:
        with open(atomic.encoded(path), "rb"):
            pass
    except OSError as problem:
        raise IoError(f"cannot read {path}: {problem.strerror}", remedy=atomic.REMEDIES.get(problem.errno, "")) from None
