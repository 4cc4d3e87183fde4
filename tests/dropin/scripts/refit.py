"""A model with other weights: refit in memory, of a file, of an engine saved without weights."""

import os
import tempfile

import torch
import torch_tensorrt as torchtrt
from torch_tensorrt.dynamo import refit_module_weights
from torch_tensorrt.dynamo.utils import COSINE_THRESHOLD, cosine_similarity


def make(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(6 * 36, 4)).eval()


x = torch.randn(2, 3, 8, 8)
old, new = make(0), make(1)
settings = {"immutable_weights": False, "min_block_size": 1, "device": torchtrt.Device._current_device()}
with torch.no_grad():
    compiled = torchtrt.dynamo.compile(torch.export.export(old, (x,)), inputs=[x], **settings)
    new_program = torch.export.export(new, (x,))
    refitted = refit_module_weights(compiled_module=compiled, new_weight_module=new_program, arg_inputs=[x], verify_output=True)
    assert cosine_similarity(new(x), refitted(x)) > COSINE_THRESHOLD and not torch.allclose(refitted(x), compiled(x))
    torch.testing.assert_close(refitted(x), new(x))

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "old.ep")
        torchtrt.save(compiled, path, inputs=[x])
        loaded = refit_module_weights(torchtrt.load(path), new_program, arg_inputs=[x])
        torch.testing.assert_close(loaded(x), new(x))

    stripped = torchtrt.dynamo.convert_exported_program_to_serialized_trt_engine(new_program, inputs=[x], strip_engine_weights=True, immutable_weights=False)
    torch.testing.assert_close(torchtrt.runtime.TorchTensorRTModule(stripped, weights=new.state_dict())(x), new(x))

    refit_module_weights(compiled, new_program, in_place=True)
    torch.testing.assert_close(compiled(x), new(x))
