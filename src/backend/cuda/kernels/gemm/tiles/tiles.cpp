#include "backend/cuda/kernels/gemm/gemm_text.h"

#include "backend/cuda/kernels/gemm/tiles/tiles.cuh.h"

namespace ingot::kernels {

std::string_view tiles_cuda_text() { return tiles_cuh; }

}  // namespace ingot::kernels
