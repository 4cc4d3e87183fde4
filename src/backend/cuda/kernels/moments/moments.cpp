#include "backend/cuda/kernels/moments/moments.h"

#include "backend/cuda/kernels/moments/moments.cuh.h"
#include "backend/cuda/kernels/moments/run/moments_args.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_MOMENTS);

}  // namespace

std::string_view moments_cuda_text() {
  static const std::string all = std::string(parameters_text) + fmt::format("\nconstexpr int moments_threads = {};\n", moments_cuda_tuning::threads) + std::string(moments_cuh);
  return all;
}

std::vector<CudaPart> moments_cuda_parts(ir::DType type) {
  std::vector<CudaPart> out;
  auto add = [&](const std::string& name, const std::string& call) {
    out.push_back({name,
                   fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ MomentsCudaParameters p) {{ {}(p); }}\n",
                               moments_cuda_tuning::threads, name, call),
                   {name}});
  };
  const std::string_view of = cuda_type(type);
  const std::string sums = moments_cuda_name(type);
  for (int vector : {1, 16 / static_cast<int>(ir::size_of(type))}) {
    for (int unit = 1; unit <= vector; unit *= 2) add(fmt::format("{}_columns_{}_{}", sums, vector, unit), fmt::format("moments_of_columns<{}, {}, {}>", of, vector, unit));
  }
  add(sums + "_rows", fmt::format("moments_of_rows<{}>", of));
  add(moments_merge_cuda_name, "merge_moments");
  return out;
}

}  // namespace ingot::kernels
