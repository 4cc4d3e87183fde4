// The text of the kernels of moments.
#pragma once
#include "backend/cuda/kernels/elements.h"

namespace ingot::kernels {

std::string_view moments_cuda_text();
// One for each kernel.
std::vector<CudaPart> moments_cuda_parts(ir::DType);

}  // namespace ingot::kernels
