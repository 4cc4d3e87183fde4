#include <string>

#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"
#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_patch.cuh.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_patch_args.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view patch_shape_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_IMPLICIT_GEMM_PATCH);

}  // namespace

std::string_view implicit_gemm_cuda_patch_text() {
  static const std::string all = std::string(patch_shape_text) + std::string(implicit_gemm_patch_cuh);
  return all;
}

}  // namespace ingot::kernels
