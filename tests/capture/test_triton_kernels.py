"""Kernels written in Triton, compiled to a cubin for a GPU that is not here."""

import dataclasses
import importlib.util
import os
import subprocess

import pytest
import torch

import ingot
from ingot.capture import external, triton_kernel
from ingot.engine import _library

HERE = importlib.util.find_spec("triton") is not None
needs_triton = pytest.mark.skipif(not HERE, reason="triton is not installed")
if HERE:
    import triton
    import triton.language as tl

    BLOCK = 512

    @triton.jit
    def scaled(x, factor, times, negate, n, y, SIZE: tl.constexpr):
        i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
        v = tl.load(x + i, mask=i < n) * factor * times
        tl.store(y + i, tl.where(negate, -v, v), mask=i < n)

    @triton.jit
    def wrong(x, factor, times, negate, n, y):
        tl.store(y, x + missing)  # noqa: F821


@torch.library.custom_op("tritons::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float, times: int, negate: bool = False) -> torch.Tensor:
    return x * factor * times * (-1 if negate else 1)


@scale.register_fake
def _(x, factor, times, negate=False):
    return torch.empty_like(x)


class Scales(torch.nn.Module):
    def forward(self, x):
        return scale(x, 1.5, 3) + 1


INPUTS = [ingot.Input(min_shape=(1, 4), opt_shape=(8, 4), max_shape=(512, 4), dtype=torch.float16, name="x")]


def grid(x, *rest):
    return ingot.Launch((x.numel() + 511) // 512, sizes=(x.numel(),))


@pytest.fixture(autouse=True)
def none_is_left():
    yield
    external._registered.pop(torch.ops.tritons.scale.default, None)


def inspected(path):
    return subprocess.run([_library.find("ingot"), "inspect", path, "--programs"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(HERE, reason="triton is installed")
def test_without_triton():
    with pytest.raises(ingot.UnsupportedError, match="the package triton is not installed") as told:
        ingot.register_kernel(scale, triton=lambda x: x, grid=grid)
    assert told.value.remedy == "pip install triton, or give the kernel as cuda or ptx"


@needs_triton
def test_it_is_compiled_into_the_plan(tmp_path):
    ingot.register_kernel(scale, triton=(scaled, {"SIZE": 512, "num_warps": 8}), grid=grid)
    compiled = ingot.compile(Scales(), inputs=INPUTS, target=["cpu", "cuda:sm_90"])
    torch.testing.assert_close(compiled(torch.ones(2, 4, dtype=torch.float16)), torch.full((2, 4), 5.5, dtype=torch.float16))  # torch's, since there is no CPU kernel
    compiled = ingot.compile(Scales(), inputs=INPUTS, target="cuda:sm_90", fallback="error")
    ingot.save(compiled, tmp_path / "p.ingot")
    shown = inspected(tmp_path / "p.ingot")
    size = shown.split("f16[")[1].split(",")[0]
    assert "external | tritons::scale" in shown and f"sizes [floordiv(4*{size} + 511, 512), 1, 1, 0, 4*{size}]" in shown
    assert b"\x7fELF" in (tmp_path / "p.ingot").read_bytes()
    for target in ("cuda:sm_80", "cuda:sm_90", "cuda:sm_100"):
        assert ingot.explain(Scales(), inputs=INPUTS, target=target).whole
    with pytest.raises(ingot.UnsupportedError, match="is compiled for one GPU, and the plan is for cuda:sm_80, cuda:sm_90"):
        ingot.compile(Scales(), inputs=INPUTS, target=["cuda:sm_80", "cuda:sm_90"], fallback="error")
    with pytest.raises(ingot.UnsupportedError, match="is not registered for cpu"):
        ingot.compile(Scales(), inputs=INPUTS, target="cpu", fallback="error")


@needs_triton
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_it_runs_on_a_gpu():
    ingot.register_kernel(scale, triton=(scaled, {"SIZE": 512, "num_warps": 8}), grid=grid)
    inputs = [ingot.Input(min_shape=(1, 4), opt_shape=(8, 4), max_shape=(512, 4), dtype=torch.float16, name="x", device="cuda")]
    compiled = ingot.compile(Scales().cuda(), inputs=inputs, fallback="error")
    for rows in (1, 8, 300):
        x = torch.linspace(-1, 1, rows * 4, device="cuda").half().reshape(rows, 4)
        torch.testing.assert_close(compiled(x), scale(x.float(), 1.5, 3).half() + 1)


@needs_triton
def test_what_is_wrong_with_a_kernel():
    with pytest.raises(ingot.InputError, match=r"is neither a function of @triton\.jit nor"):
        ingot.register_kernel(scale, triton=lambda x: x, grid=grid)
    with pytest.raises(ingot.InputError, match="has no parameter 'SIEZ'"):
        ingot.register_kernel(scale, triton=(scaled, {"SIEZ": 512}), grid=grid)
    cases = (
        (wrong, {}, grid, "the Triton kernel of tritons.scale.default does not compile for sm_90"),
        (scaled, {"SIZE": 512}, lambda *a: ingot.Launch(1), r"takes x, factor, times, negate, n, y, and the operator gives \*fp16, fp32, i32, i1, \*fp16"),
        (scaled, {"SIZE": 512, "num_warps": 7}, grid, "does not compile for sm_90"),
    )
    for function, more, launch, message in cases:
        ingot.register_kernel(scale, triton=(function, more), grid=launch)
        with pytest.raises(ingot.InputError, match=message):
            ingot.compile(Scales(), inputs=INPUTS, target="cuda:sm_90", fallback="error")


PTX = """.target sm_90a
.visible .entry f(
	.param .u64 .ptr .global .align 1 f_param_0,
	.param .u32 f_param_1,
	.param .u64 .ptr .global .align 1 f_param_2,
	.param .u64 .ptr .global .align 1 f_param_3
)
{ ld.param.b64 %rd1, [f_param_0]; ret; }
"""


def test_parameters_for_scratch_memory():
    made = triton_kernel._without_scratch(PTX, "f", 2)
    assert made.count("f_param_0") == 2 and "f_param_1" in made and "f_param_2" not in made and "f_param_3" not in made
    with pytest.raises(ingot.UnsupportedError, match="reads scratch memory"):
        triton_kernel._without_scratch(PTX.replace("[f_param_0]", "[f_param_3]"), "f", 2)


def test_a_cubin_is_for_its_architecture(tmp_path):
    """The code of a plan is the cubin, unchanged, and for another GPU there is none."""
    image = os.urandom(3000)
    kernel = ingot.register_kernel(scale, ptx=(PTX, "f"), grid=grid)
    external._registered[kernel.op] = dataclasses.replace(kernel, gpu=("cubin", f"sm_90 {image.hex()}", "f"))
    ingot.save(ingot.compile(Scales(), inputs=INPUTS, target="cuda:sm_90", fallback="error"), tmp_path / "p.ingot")
    assert image in (tmp_path / "p.ingot").read_bytes()
    with pytest.raises(ingot.InputError, match="the code of kernel tritons::scale is for sm_90 alone, and the plan for cuda:sm_80") as told:
        ingot.compile(Scales(), inputs=INPUTS, target="cuda:sm_80", fallback="error")
    assert told.value.remedy == "compile the model for cuda:sm_80 where the kernel is registered"
    external._registered[kernel.op] = dataclasses.replace(kernel, gpu=("cubin", "sm_90 7fxx", "f"))
    with pytest.raises(ingot.Error, match="is not in hexadecimal digits"):
        ingot.compile(Scales(), inputs=INPUTS, target="cuda:sm_90", fallback="error")
