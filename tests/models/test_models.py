"""Whole architectures from transformers, random weights: one segment, static and dynamic, on the CPU and on a GPU, equal to eager by the accuracy rule."""

from __future__ import annotations

import copy
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import models as architectures
from accuracy import assert_accurate
from places import PLACES
from torch.nn.attention import SDPBackend, sdpa_kernel

import ingot


@pytest.fixture(autouse=True)
def no_grad():
    # With TF32 eager would round some convolutions of a network and others not, and bound nothing.
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def specs(dynamic, batch=2, sequence=9):
    if not dynamic:
        return [ingot.Input((batch, sequence), dtype=torch.int64, name=n) for n in ("input_ids", "attention_mask")]
    ranges = dict(min_shape=(1, 1), opt_shape=(2, 16), max_shape=(8, 64), dtype=torch.int64, shared_dims={0: "B", 1: "S"})
    return [ingot.Input(name=n, **ranges) for n in ("input_ids", "attention_mask")]


def batch_of(family, batch, sequence, padded):
    generator = torch.Generator().manual_seed(batch * 1000 + sequence)
    ids = torch.randint(0, family.vocabulary, (batch, sequence), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for row in range(1, batch):  # right padding, another length each row
            mask[row, max(1, sequence - 2 * row) :] = 0
    return ids, mask


def check(family, module, compiled, batch, sequence, padded=True):
    device = next(module.parameters()).device
    inputs = [t.to(device) for t in batch_of(family, batch, sequence, padded)]
    exact, result, eager = copy.deepcopy(module).double()(*inputs), compiled(*inputs), module(*inputs)
    assert (result.device, result.stride()) == (eager.device, eager.stride())
    assert_accurate(result, eager, exact, depth=family_depth(module))


def family_depth(module):
    """Longest accumulation of the model: the widest matrix times the number of layers."""
    config = module.inner.config
    layers = getattr(config, "num_hidden_layers", None) or config.n_layer
    return layers * 4 * config.hidden_size


def compile_open(module, inputs, open_on_gpu, dynamic_shapes):
    """Compiles with open axes. Skips if torch.export itself, without ingot, refuses the model on a GPU: torch 2.11 refuses some decoders and image sizes that 2.13 accepts."""
    try:
        return ingot.compile(module, inputs=inputs)
    except Exception:
        if not open_on_gpu:
            raise
        example = tuple(spec.example().cuda() for spec in inputs)
        try:
            with sdpa_kernel(SDPBackend.MATH):
                torch.export.export(module, example, dynamic_shapes=dynamic_shapes, strict=False)
        except Exception as problem:
            pytest.skip(f"torch {torch.__version__} does not export it with these axes open: {type(problem).__name__}: {str(problem)[:200]}")
        raise


@PLACES
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", architectures.SMALL)
@pytest.mark.one_in(2)
def test_small(name, dynamic, device, dtype):
    family = architectures.SMALL[name]
    module = family().to(device, dtype)
    axes = {0: torch.export.Dim("B", min=1, max=8), 1: torch.export.Dim("S", min=1, max=64)}
    compiled = compile_open(module, specs(dynamic), dynamic and device == "cuda" and name in ("llama", "qwen2"), [axes] * 2)
    assert torch.device(compiled.engine.device).type == device
    assert compiled.report.whole
    for batch, sequence in [(2, 9)] if not dynamic else [(2, 9), (1, 1), (3, 17), (8, 64), (1, 40)]:
        check(family, module, compiled, batch, sequence)


@PLACES
@pytest.mark.parametrize("name", architectures.SMALL)
@pytest.mark.one_in(3)
def test_torch_compile(name, device, dtype):
    family = architectures.SMALL[name]
    module = family().to(device, dtype)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="ingot")
    for batch, sequence in [(2, 9), (3, 12), (4, 20)]:
        check(family, module, compiled, batch, sequence)


def check_images(module, compiled, shape):
    parameter = next(module.parameters())
    images = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0])).to(parameter)
    exact, result, eager = copy.deepcopy(module).double()(images.double()), compiled(images), module(images)
    assert result.device == eager.device
    # On a GPU cuDNN may give another memory format than torch.export recorded, whose word is taken.
    if result.stride() != eager.stride():
        assert images.is_cuda and result.stride() == torch.export.export(module, (images,)).graph_module.graph.output_node().args[0][0].meta["val"].stride()
    # Longest accumulation: the sums of all weights one behind another.
    assert_accurate(result, eager, exact, depth=sum(p[0].numel() for p in module.parameters() if p.dim() > 1))


OPEN = {"batch": ((1, 3, 32, 32), (2, 3, 32, 32), (8, 3, 32, 32)), "images": ((1, 3, 32, 32), (2, 3, 40, 48), (8, 3, 64, 80))}

SHAPES = {None: [(2, 3, 32, 32)], "batch": [(1, 3, 32, 32), (7, 3, 32, 32)], "images": [(1, 3, 32, 32), (2, 3, 49, 33), (3, 3, 64, 80)]}
# ViT has positions for one size of image.
KINDS = [(name, dynamic) for name in architectures.SMALL_IMAGES for dynamic in SHAPES if (name, dynamic) != ("vit", "images")]


@PLACES
@pytest.mark.parametrize("name, dynamic", KINDS, ids=[f"{name}-{dynamic or 'static'}" for name, dynamic in KINDS])
@pytest.mark.one_in(2)
def test_small_images(name, dynamic, device, dtype):
    module = architectures.SMALL_IMAGES[name]().to(device, dtype)
    ranges = dict(zip(("min_shape", "opt_shape", "max_shape"), OPEN[dynamic])) if dynamic else {"shape": (2, 3, 32, 32)}
    inputs = [ingot.Input(name="pixel_values", dtype=dtype, **ranges)]
    axes = {0: torch.export.Dim("B", min=1, max=8), 2: torch.export.Dim("H", min=32, max=64), 3: torch.export.Dim("W", min=32, max=80)}
    compiled = compile_open(module, inputs, dynamic == "images" and device == "cuda", [axes])
    assert torch.device(compiled.engine.device).type == device
    assert compiled.report.whole
    for shape in SHAPES[dynamic]:
        check_images(module, compiled, shape)


@PLACES
@pytest.mark.parametrize("name", architectures.SMALL_IMAGES)
@pytest.mark.one_in(2)
def test_torch_compile_images(name, device, dtype):
    module = architectures.SMALL_IMAGES[name]().to(device, dtype)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="ingot")
    for batch in (2, 3, 4):
        check_images(module, compiled, (batch, 3, 32, 32))


@pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="full size: make test-all")
@pytest.mark.parametrize("name", architectures.FULL)
def test_full(name):
    family = architectures.FULL[name]
    module = family()
    compiled = ingot.compile(module, inputs=specs(True))
    check(family, module, compiled, 2, 33)


@pytest.mark.skipif(not os.environ.get("INGOT_TEST_ALL"), reason="full size: make test-all")
@pytest.mark.parametrize("name", architectures.FULL_IMAGES)
def test_full_images(name):
    module = architectures.FULL_IMAGES[name]()
    compiled = ingot.compile(module, inputs=[ingot.Input(min_shape=(1, 3, 224, 224), opt_shape=(1, 3, 224, 224), max_shape=(4, 3, 224, 224))])
    assert compiled.report.whole
    for batch in (1, 2):
        check_images(module, compiled, (batch, 3, 224, 224))


def test_minilm_many_sizes():
    """One plan, sizes from 1 x 1 to 1 x 512, without compiling again."""
    family = architectures.minilm
    module = family()
    ranges = dict(min_shape=(1, 1), opt_shape=(8, 32), max_shape=(64, 512), dtype=torch.int64, shared_dims={0: "B", 1: "S"})
    compiled = ingot.compile(module, inputs=[ingot.Input(name=n, **ranges) for n in ("input_ids", "attention_mask")])
    sizes = [(1, 1), (1, 2), (2, 1), (3, 7), (5, 33), (16, 8), (1, 512)]
    for batch, sequence in sizes:
        check(family, module, compiled, batch, sequence)
