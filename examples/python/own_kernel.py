"""Your own operator with a kernel that runs inside the engine: a C function on the CPU, CUDA C++ on a GPU.

Compiles the C function with the system's compiler, registers it with ingot, and compares a small model with eager PyTorch. Then the saved plan runs in a process without Python. If NVRTC is
installed, the CUDA kernel is compiled into a plan for an H100.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import torch

import ingot

HEADERS = ingot.include_path()
CLI = os.environ.get("INGOT_CLI", "ingot")

C = r"""
#include "ingot/kernel.h"

struct rows { const float* x; float* y; int64_t columns; float limit; };

/* One row: divided by its largest absolute value, and cut off at the limit. */
static void one_row(int64_t row, int32_t thread, void* user) {
  const struct rows* r = user;
  const float* x = r->x + row * r->columns;
  float* y = r->y + row * r->columns;
  float most = 1e-12f;
  (void)thread;
  for (int64_t i = 0; i < r->columns; ++i) {
    const float size = x[i] < 0 ? -x[i] : x[i];
    most = size > most ? size : most;
  }
  for (int64_t i = 0; i < r->columns; ++i) {
    const float v = x[i] / most;
    y[i] = v > r->limit ? r->limit : v < -r->limit ? -r->limit : v;
  }
}

int clip_rows(const ingot_kernel_call* call) {
  const ingot_tensor* x = &call->inputs[0];
  struct rows r = {x->data, call->outputs[0].data, x->dims[1], (float)call->numbers[0].f};
  call->parallel_for(call, x->dims[0], one_row, &r);
  return 0;
}
"""

CUDA = r"""
// A warp a row.
extern "C" __global__ void clip_rows(const float* x, double limit, long long columns, float* y) {
  x += blockIdx.x * columns;
  y += blockIdx.x * columns;
  float most = 1e-12f;
  for (long long i = threadIdx.x; i < columns; i += 32) most = fmaxf(most, fabsf(x[i]));
  for (int lane = 16; lane > 0; lane /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, lane));
  for (long long i = threadIdx.x; i < columns; i += 32) y[i] = fminf(fmaxf(x[i] / most, -(float)limit), (float)limit);
}
"""


@torch.library.custom_op("example::clip_rows", mutates_args=())
def clip_rows(x: torch.Tensor, limit: float) -> torch.Tensor:
    return (x / x.abs().amax(1, keepdim=True).clamp(min=1e-12)).clamp(-limit, limit)


@clip_rows.register_fake
def _(x, limit):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(16, 64), torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.last(clip_rows(self.first(x), 0.5))


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "clip.c", Path(folder) / "libclip.so"
        source.write_text(C)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{HEADERS}", source, "-o", library], check=True)
        ingot.register_kernel(clip_rows, cpu=(library, "clip_rows"), cuda=CUDA, grid=lambda x, limit: ingot.Launch(x.shape[0], 32, sizes=(x.shape[1],)))

        model = Model().eval()
        compiled = ingot.compile(model, inputs=[ingot.Input(min_shape=(1, 16), opt_shape=(8, 16), max_shape=(512, 16), name="x")])
        print(compiled.report)
        x = torch.randn(100, 16)
        print(f"largest difference from eager: {(compiled(x) - model(x)).abs().max():.1e}")

        plan = Path(folder) / "model.ingot"
        ingot.save(compiled, plan)
        print(subprocess.run([CLI, "run", plan, "-i", "x=random:0", "--trust", "code"], capture_output=True, text=True, check=True).stdout.strip())
        try:
            ingot.load(plan)
        except ingot.Error as problem:
            print(problem.message)

        try:
            ingot.save(ingot.compile(model, inputs=[ingot.Input((8, 16))], target="cuda:sm_90"), Path(folder) / "gpu.ingot")
            print("the same for sm_90: compiled")
        except ingot.DeviceError as problem:
            print(f"the same for sm_90: {problem.message}")


if __name__ == "__main__":
    main()
