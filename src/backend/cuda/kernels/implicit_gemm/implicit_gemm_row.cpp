#include "backend/cuda/kernels/implicit_gemm/implicit_gemm.h"

#include "backend/cuda/kernels/implicit_gemm/implicit_gemm_row.cuh.h"

namespace ingot::kernels {

std::string_view implicit_gemm_cuda_row_text() { return implicit_gemm_row_cuh; }

}  // namespace ingot::kernels
