// Products of half precision through a map as CUDA C++.
#pragma once
#include "kernels/elements_cuda.h"

namespace ingot::kernels {

// Behind the backend's texts for elements and for matrix instructions (those of attention).
std::string_view matmul_map_cuda_text();
CudaPart matmul_map_cuda_part(ir::DType);

}  // namespace ingot::kernels
