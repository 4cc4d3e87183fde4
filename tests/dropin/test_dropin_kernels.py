"""torch_tensorrt.kernels: operators made of CUDA C++ or PTX, as upstream's guide writes them; compiled for a GPU without one. Plugins."""

import subprocess

import pytest
import torch

import ingot
import ingot.torch_tensorrt as torch_tensorrt
import ingot.torch_tensorrt.kernels as ttk
from ingot.engine import _library

SCALE = """
extern "C" __global__ void my_scale(const float* x, float alpha, int n, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * x[i];
}
"""
RELU = """
extern "C" __global__ void my_relu(const float* x, int h, int w, float* y) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < h && j < w) y[i * w + j] = fmaxf(x[i * w + j], 0.0f);
}
"""
SUMS = """
extern "C" __global__ void my_sums(const float* x, int d, float* s, float* most) {
  if (threadIdx.x == 0) { s[blockIdx.x] = x[blockIdx.x * d]; most[blockIdx.x] = x[blockIdx.x * d]; }
}
"""
PTX = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry twice(.param .u64 x, .param .u64 y) { ret; }\n"


@pytest.fixture(scope="module", autouse=True)
def operators():
    ttk.cuda_kernel_op(
        "dropin::scale",
        ttk.KernelSpec(SCALE, "my_scale", [ttk.InputDecl("x"), ttk.ScalarInput("alpha", float)], [ttk.OutputDecl("y", ttk.SameAs("x"))], [ttk.Numel("x")], ttk.Elementwise((256,))),
        supports_dynamic_shapes=True,
    )
    ttk.cuda_kernel_op(
        "dropin::relu",
        ttk.KernelSpec(RELU, "my_relu", [ttk.InputDecl("x")], [ttk.OutputDecl("y", ttk.SameAs(0))], [ttk.DimSize("x", -2), ttk.DimSize("x", -1)], ttk.Elementwise((16, 8), "nd")),
    )
    rows = ttk.ReduceDims("x", (-1,))
    ttk.cuda_kernel_op(
        "dropin::sums", ttk.KernelSpec(SUMS, "my_sums", [ttk.InputDecl("x")], [ttk.OutputDecl("s", rows), ttk.OutputDecl("most", rows)], [ttk.DimSize("x", 1)], ttk.Reduction((-1,), 128))
    )

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(2 * x.shape[0])

    ttk.ptx_op("dropin::twice", PTX.encode(), "twice", twice, grid=lambda x: ingot.Launch((x.shape[0] + 63) // 64, 64, number_bytes=4))


class Model(torch.nn.Module):
    def forward(self, x):
        y = torch.ops.dropin.relu(torch.ops.dropin.scale(x, 2.0) + 1)
        s, most = torch.ops.dropin.sums(y)
        return torch.ops.dropin.twice(s) * 2, most - 1


def test_kernels_are_steps_of_the_plan(tmp_path):
    dynamic = ingot.Input(min_shape=(1, 6), opt_shape=(4, 6), max_shape=(64, 6), name="x")
    compiled = ingot.compile(Model(), inputs=[dynamic], target="cuda:sm_90", fallback="error")
    ingot.save(compiled, tmp_path / "p.ingot")
    shown = subprocess.run([_library.find("ingot"), "inspect", "--programs", tmp_path / "p.ingot"], capture_output=True, text=True, check=True).stdout
    steps = [line.split("|")[1].strip() for line in shown.splitlines() if " external | " in line]
    assert [s.split(":  ")[0].split(": ")[0] for s in steps] == ["dropin::scale", "dropin::relu", "dropin::sums", "dropin::twice"]
    n = steps[0].split("f32[")[1].split(",")[0]
    launches = [s.split("sizes ")[1].split(";")[0] for s in steps]
    # blocks along x, y and z, bytes of shared memory, the extras
    assert launches[0] == f"[floordiv(6*{n} + 255, 256), 1, 1, 0, 6*{n}]"
    assert launches[1] == f"[1, floordiv({n} + 7, 8), 1, 0, {n}, 6]"
    assert launches[2] == f"[{n}, 1, 1, 0, 6]"
    assert launches[3] == f"[floordiv({n} + 63, 64), 1, 1, 0]"


def test_the_fake_kernel_and_the_schema():
    assert str(torch.ops.dropin.scale.default._schema) == "dropin::scale(Tensor x, float alpha) -> Tensor"
    assert str(torch.ops.dropin.sums.default._schema) == "dropin::sums(Tensor x) -> (Tensor, Tensor)"
    made = torch.ops.dropin.sums(torch.empty(3, 4, device="meta", dtype=torch.float16))
    assert [(t.shape, t.dtype) for t in made] == [((3,), torch.float16)] * 2


WRONG = [
    (lambda: ttk.cuda_kernel_op("dropin::a", ttk.KernelSpec(SCALE, "my_scale", [ttk.InputDecl("x")]), meta_fn=lambda x: x, aot_fn=print, schema="(Tensor x) -> Tensor"), ingot.UnsupportedError, "aot_fn"),
    (lambda: ttk.cuda_kernel_op("dropin::b", ttk.KernelSpec(SCALE, "my_scale")), ingot.InputError, "has no inputs"),
    (lambda: ttk.cuda_kernel_op("dropin::c", ttk.KernelSpec(SCALE, "my_scale", [ttk.InputDecl("x")], [ttk.OutputDecl("y", ttk.SameAs("x"))])), ingot.InputError, "has no geometry"),
    (lambda: ttk.cuda_kernel_op("noname", ttk.KernelSpec(SCALE, "my_scale", [ttk.InputDecl("x")], [ttk.OutputDecl("y", ttk.SameAs("x"))], geometry=ttk.Elementwise())), ingot.InputError, "is not a name of an operator"),
    (lambda: ttk.ptx_op("dropin::d", PTX, "twice", lambda x: x, aot_fn=print), ingot.UnsupportedError, "aot_fn"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_refused(case):
    call, kind, text = WRONG[case]
    with pytest.raises(kind, match=text):
        call()


def test_a_plugin_of_an_operator_with_a_kernel_is_nothing_more(caplog):
    torch_tensorrt.dynamo.conversion.plugins.custom_op("dropin::scale", supports_dynamic_shapes=True)
    assert not caplog.records
