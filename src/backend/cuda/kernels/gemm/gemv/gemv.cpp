#include "backend/cuda/kernels/gemm/gemm_text.h"

#include "backend/cuda/kernels/gemm/gemv/gemv.cuh.h"

namespace ingot::kernels {

std::string_view gemv_cuda_text() { return gemv_cuh; }

}  // namespace ingot::kernels
