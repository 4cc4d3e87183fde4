// The places of an index in the order of their segments, as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"

namespace ingot::kernels {

// Comes after elements_cuda_text().
std::string_view order_segments_cuda_text();
CudaPart order_segments_cuda_part();

}  // namespace ingot::kernels
