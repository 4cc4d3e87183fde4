#include <string>

#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"
#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_brick.cuh.h"
#include "backend/cuda/kernels/implicit_gemm/run/implicit_gemm_brick_args.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view brick_shape_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_IMPLICIT_GEMM_BRICK);

}  // namespace

std::string_view implicit_gemm_cuda_brick_text() {
  static const std::string all = std::string(brick_shape_text) + std::string(implicit_gemm_brick_cuh);
  return all;
}

}  // namespace ingot::kernels
