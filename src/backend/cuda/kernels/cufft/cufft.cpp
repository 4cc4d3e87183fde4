#include "backend/cuda/kernels/cufft/cufft.h"

#include "backend/cuda/kernels/cufft/cufft.cuh.h"
#include "backend/cuda/kernels/cufft/run/cufft_args.h"
#include "backend/cuda/kernels/fourier/run/fourier_cuda_args.h"
#include "base/error.h"

namespace ingot::kernels {

std::string_view cufft_cuda_text() {
  static const std::string all = fmt::format("constexpr int cufft_numbers = {};\n{}", cufft_numbers, cufft_cuh);
  return all;
}

CudaPart cufft_cuda_part(const FourierArgs& args, ir::DType type) {
  constexpr std::string_view kinds[] = {"fourier_pair", "fourier_of_real", "fourier_to_real"};
  CudaPart out;
  out.name = cufft_cuda_name(args, type);
  for (std::string_view what : {"_join", "_split"}) {
    out.kernels.push_back(out.name + std::string(what));
    out.text +=
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ FourierCudaParameters p) {{\n  after_others();\n  fourier{}<{}, {}>(p);\n}}\n",
                    fourier_threads, out.kernels.back(), what, cuda_type(type), kinds[static_cast<size_t>(args.kind)]);
  }
  return out;
}

}  // namespace ingot::kernels
