"""Input, Device and the enumerations, as upstream's scripts use them."""

import logging
from collections import namedtuple

import numpy
import pytest
import torch

import ingot
import ingot.torch_tensorrt as torch_tensorrt
from ingot import UnsupportedError
from ingot.torch_tensorrt import Device, DeviceType, EngineCapability, Input, Platform, _said, dtype, memory_format
from ingot.torch_tensorrt._Input import Given

RANGE = {"min_shape": (1, 3), "opt_shape": (4, 3), "max_shape": (8, 3)}


def test_shapes():
    assert Input((1, 3)).shape == Input(shape=[1, 3]).shape == Input(torch.Size([1, 3])).shape == (1, 3)
    assert Input(**RANGE).shape == RANGE
    assert Input(shape=(-1, 3), shape_ranges=[(1, 4, 8)]).shape == RANGE
    assert Input(torch_tensor=torch.ones(2, 3, dtype=torch.int32)).dtype == torch.int32
    assert Input.from_tensor(torch.ones(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)).format is memory_format.channels_last
    assert [i.shape for i in Input.from_tensors([torch.ones(2), torch.ones(3)])] == [(2,), (3,)]


def test_the_example_of_an_input():
    ranged, given = Input(**RANGE, dtype=torch.int32), torch.ones(2, 3)
    assert ranged.torch_tensor.shape == (4, 3) and ranged.torch_tensor.dtype is torch.int32 and ranged.torch_tensor is ranged.torch_tensor
    assert Input((1, 3)).torch_tensor.shape == (1, 3) and Input(**RANGE, torch_tensor=given).torch_tensor is given
    assert Given((ranged,)).positional[0].max_shape == (8, 3)  # an example that is made does not fix the sizes
    assert torch.equal(Input(min_shape=(1,), opt_shape=(4,), max_shape=(8,), dtype=torch.int64, is_shape_tensor=True).torch_tensor, torch.tensor([4]))


@pytest.mark.parametrize(
    "kind, arguments",
    [
        (ValueError, {}),
        (ValueError, {"min_shape": (1,), "max_shape": (2,)}),
        (ValueError, {"shape": (1, 3), **RANGE}),
        (TypeError, {"shape": 3}),
        (TypeError, {"shape": (3,), "dtype": torch.complex64}),
        (ValueError, {"shape": (3,), "tensor_domain": (2, 1)}),
        (ValueError, {"shape": (3,), "shared_dims": {0: "B"}}),
        (ValueError, {**RANGE, "shared_dims": {2: "B"}}),
        (ValueError, {**RANGE, "shared_dims": {0: ""}}),
        (ValueError, {**RANGE, "shared_dims": {1: "B"}}),
        (TypeError, {**RANGE, "shared_dims": ["B"]}),
        (ValueError, {"profiles": []}),
        (ValueError, {"profiles": [RANGE], "shape": (1, 3)}),
        (ValueError, {"profiles": [{**RANGE, "min_shape": (5, 3)}]}),
    ],
)
def test_what_is_no_input(kind, arguments):
    with pytest.raises(kind):
        Input(**arguments)


def test_an_unknown_keyword_is_told(caplog):
    _said.forget()
    assert Input((1, 3), torch_tensorrt=1).shape == (1, 3)
    assert "'torch_tensorrt'" in caplog.text


def test_profiles_are_one_range():
    other = {"min_shape": (16, 3), "opt_shape": (16, 3), "max_shape": (32, 3)}
    both = Input(profiles=[RANGE, other])
    assert both.shape == {"min_shape": (1, 3), "opt_shape": (4, 3), "max_shape": (32, 3)} and Given([both]).profiles.count == 2
    with pytest.raises(ValueError, match="different numbers"):
        Given([both, Input(profiles=[RANGE])])


def test_namedtuple_shapes_share_their_fields():
    shape = namedtuple("Shape", "batch channels")
    made = Input(min_shape=shape(1, 3), opt_shape=shape(4, 3), max_shape=shape(8, 3))
    assert made.shared_dims == {0: "batch"}
    with pytest.raises(TypeError):
        Input(min_shape=shape(1, 3), opt_shape=(4, 3), max_shape=(8, 3))


def test_examples():
    made = Input(**RANGE, dtype=torch.int64, tensor_domain=(3, 5)).example_tensor("max_shape")
    assert made.shape == (8, 3) and made.dtype is torch.int64 and set(made.flatten().tolist()) <= {3, 4}
    with pytest.raises(ValueError):
        Input(**RANGE).example_tensor()
    with pytest.raises(ValueError):
        Input((1, 3)).example_tensor("opt_shape")


def test_what_ingot_gets():
    x = torch.ones(2)
    given = Given([Input(**RANGE, shared_dims={0: "batch size"}), (x, 3, None)], kwarg_inputs={"k": Input((2,), dtype=dtype.i32)})
    first = given.positional[0]
    assert isinstance(first, ingot.Input) and first.shared_dims == {0: "batch_size"} and given.positional[1] == (x, 3, None)
    assert given.keywords["k"].dtype == "int32"
    with pytest.raises(ValueError, match="shared dimension"):
        Given([Input(**RANGE, shared_dims={0: "B"}), Input(min_shape=(2, 3), opt_shape=(4, 3), max_shape=(8, 3), shared_dims={0: "B"})])
    with pytest.raises(ValueError, match="type object"):
        Given([object()])


def test_dtypes():
    assert dtype._from(torch.float16) is dtype.half is dtype.f16 and dtype._from(numpy.int32) is dtype.i32 and dtype.f32.to(torch.dtype) is torch.float32
    assert dtype.i8.to(numpy.dtype) == numpy.int8 and dtype.bf16.try_to(numpy.dtype) is None and dtype.try_from(torch.complex64) is None
    assert dtype.unknown.to(torch.dtype, use_default=True) is torch.float32 and dtype.f32 == torch.float32
    with pytest.raises(TypeError):
        dtype._from("colour")
    assert memory_format._from(torch.channels_last) is memory_format.hwc and memory_format.dhwc.to() is torch.channels_last_3d
    with pytest.raises(ingot.InputError, match="TensorRT's own"):
        memory_format.chw32.to()


def test_devices(caplog):
    _said.forget()
    caplog.set_level(logging.INFO)
    assert Device("cuda:1") == Device("gpu:1") == Device(gpu_id=1) == Device(torch.device("cuda:1")) and Device("cuda:1").gpu_id == 1
    assert Device("cpu").to() == torch.device("cpu") and Device("cpu").device_type is DeviceType.CPU
    if not torch.cuda.is_available():
        assert Device("cuda:0").to(torch.device) == Device("cuda:1").to() == torch.device("cpu")
        assert caplog.text.count("stands for the CPU") == 1
    for wrong, kind in (("tpu", ValueError), (3, TypeError)):
        with pytest.raises(kind):
            Device(wrong)
    assert (Device("dla:1").device_type, Device(dla_core=1).dla_core) == (DeviceType.DLA, 1) and Device("dla:1") != Device("dla:0")
    with pytest.raises(UnsupportedError, match="DLA"):
        Device("dla:0").to()
    with pytest.raises(TypeError):
        Device("cuda:0", allow_gpu_fallback=1)


def test_the_rest():
    assert DeviceType._from("cuda") is DeviceType.GPU and EngineCapability._from("standard") is EngineCapability.STANDARD
    assert Platform.current_platform() is not Platform.UNKNOWN and str(Platform.WIN_ARM64) == "win_arm64"
    assert torch_tensorrt.ENABLED_FEATURES.refit and not torch_tensorrt.ENABLED_FEATURES._replace(refit=False).refit
    assert tuple(map(int, torch_tensorrt.__version__.split("+")[0].split("."))) >= (2, 14)


def test_indices_behind_the_last_offset_of_bags_are_left_out():
    class Bags(torch.nn.Module):
        def forward(self, table, places, offsets):
            return torch.nn.functional.embedding_bag(places, table, offsets, mode="sum", include_last_offset=True)

    inputs = torch.randn(5, 2), torch.tensor([1, 2, 3, 4, 0]), torch.tensor([0, 0, 3])
    made = torch_tensorrt.compile(Bags(), inputs=list(inputs), min_block_size=1, require_full_compilation=True)
    torch.testing.assert_close(made(*inputs), Bags()(*inputs))
