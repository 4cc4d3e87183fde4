// Rows combined segment by segment, as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/reduce_segments/run/reduce_segments_args.h"

namespace ingot::kernels {

// Comes after elements_cuda_text().
std::string_view reduce_segments_cuda_text();
CudaPart reduce_segments_cuda_part(const ReduceSegmentsArgs&, ir::DType);

}  // namespace ingot::kernels
