#include <string>

#include "backend/cuda/kernels/gemm/gemm_text.h"
#include "backend/cuda/kernels/gemm/im2col_3d/im2col_3d.cuh.h"
#include "backend/cuda/kernels/gemm/im2col_3d/run/im2col_3d_args.h"

namespace ingot::kernels {

namespace {

constexpr std::string_view im2col_3d_shape_text = INGOT_CUDA_TEXT_OF(INGOT_CUDA_IM2COL_3D);

}  // namespace

std::string_view im2col_3d_cuda_text() {
  static const std::string all = std::string(im2col_3d_shape_text) + std::string(im2col_3d_cuh);
  return all;
}

}  // namespace ingot::kernels
