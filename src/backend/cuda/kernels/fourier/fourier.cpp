#include "backend/cuda/kernels/fourier/fourier.h"

#include "backend/cuda/kernels/fourier/fourier.cuh.h"
#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "base/error.h"
#include "ir/butterfly.cuh.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view parameters_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_FOURIER);

}  // namespace

std::string_view fourier_cuda_text() {
  static const std::string all = std::string(parameters_text) + "\n#define INGOT_INLINE __device__ __forceinline__\n" + std::string(butterfly_cuh) +
                                 fmt::format("\nconstexpr int fourier_threads = {}, max_radix = {};\n", fourier_threads, ir::max_radix) + std::string(fourier_cuh);
  return all;
}

CudaPart fourier_cuda_part(const FourierArgs& args, ir::DType type) {
  constexpr std::string_view kinds[] = {"fourier_pair", "fourier_of_real", "fourier_to_real"};
  CudaPart out;
  out.name = fourier_cuda_name(args, type);
  const std::string_view t = cuda_type(type), kind = kinds[static_cast<size_t>(args.kind)];
  auto kernel = [&](std::string_view suffix, const std::string& call) {
    out.kernels.push_back(fmt::format("{}_{}", out.name, suffix));
    out.text += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ FourierCudaParameters p) {{\n  after_others();\n  {}(p);\n}}\n",
                            fourier_threads, out.kernels.back(), call);
  };
  kernel("roots", fmt::format("fourier_roots<{}>", t));
  kernel("block", fmt::format("fourier_in_block<{}, {}, false>", t, kind));
  kernel("filter", fmt::format("fourier_in_block<{}, {}, true>", t, kind));
  kernel("load", fmt::format("fourier_load<{}, {}, false>", t, kind));
  kernel("load_filter", fmt::format("fourier_load<{}, {}, true>", t, kind));
  kernel("stage", fmt::format("fourier_one_stage<{}>", t));
  kernel("middle", fmt::format("fourier_middle<{}>", t));
  kernel("store", fmt::format("fourier_store<{}, {}>", t, kind));
  return out;
}

}  // namespace ingot::kernels
