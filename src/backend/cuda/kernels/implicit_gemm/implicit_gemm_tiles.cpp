#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"

#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_tiles.cuh.h"

namespace ingot::kernels {

std::string_view implicit_gemm_cuda_tiles_text() { return implicit_gemm_tiles_cuh; }

}  // namespace ingot::kernels
