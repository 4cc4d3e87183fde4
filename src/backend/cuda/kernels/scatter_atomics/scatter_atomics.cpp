#include "backend/cuda/kernels/scatter_atomics/scatter_atomics.h"

#include "backend/cuda/kernels/scatter_atomics/run/scatter_atomics_launches.h"
#include "backend/cuda/kernels/scatter_atomics/run/tuning.h"
#include "backend/cuda/kernels/scatter_atomics/scatter_atomics.cuh.h"
#include "base/error.h"

namespace ingot::kernels {

std::string_view scatter_atomics_cuda_text() {
  static const std::string all = fmt::format("constexpr int scatter_atomics_threads = {};\n", scatter_atomics_tuning::threads) + std::string(scatter_atomics_cuh);
  return all;
}

CudaPart scatter_atomics_cuda_part(const ScatterArgs& args, ir::DType type) {
  CudaPart out;
  out.name = scatter_atomics_cuda_name(type, args.axes.size());
  for (int64_t vector : {int64_t{1}, scatter_atomics_tuning::vector(type)}) {
    if (vector == 1 && !out.kernels.empty()) break;
    out.kernels.push_back(fmt::format("{}_{}", out.name, vector));
    out.text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ ScatterAtOnceParameters p) {{\n  after_others();\n  scatter_atomics<{}, {}, {}>(p);\n}}\n",
        scatter_atomics_tuning::threads, out.kernels.back(), cuda_type(type), vector, args.axes.size());
  }
  return out;
}

}  // namespace ingot::kernels
