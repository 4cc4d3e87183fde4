#include "backend/cuda/kernels/grid_sample/grid_sample.h"

#include "backend/cuda/kernels/grid_sample/grid_sample.cuh.h"
#include "backend/cuda/kernels/grid_sample/run/grid_sample_cuda_args.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_GRID_SAMPLE);

}  // namespace

std::string_view grid_sample_cuda_text() {
  static const std::string all =
      std::string(parameters_text) +
      fmt::format("\nconstexpr int sample_threads = {};\nenum SampleOutside {{ sample_zeros, sample_border, sample_reflection }};\n", sample::tuning::block) +
      std::string(grid_sample_cuh);
  return all;
}

CudaPart grid_sample_cuda_part(const GridSampleArgs& args, ir::DType type) {
  CudaPart out;
  out.name = grid_sample_cuda_name(args, type);
  for (const bool vectors : {false, true}) {
    out.kernels.push_back(out.name + (vectors ? sample_vectors : sample_points));
    out.text += fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ SampleCudaParameters p) {{\n  after_others();\n  grid_sample<{}, {}, {}, {}, "
        "{}>(p);\n}}\n",
        sample::tuning::block, out.kernels.back(), cuda_type(type), args.mode == GridSampleArgs::Mode::cubic, static_cast<int>(args.outside), args.corners,
        vectors ? sample_vector(type) : 1);
  }
  return out;
}

}  // namespace ingot::kernels
