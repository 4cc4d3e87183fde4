// Scans as CUDA C++.
#pragma once
#include "backend/cuda/kernels/elements.h"
#include "kernels/scan/run/scan_args.h"

namespace ingot::kernels {

// Comes after elements_cuda_text(); shared by all scans.
std::string_view scan_cuda_text();
CudaPart scan_cuda_part(const ScanArgs&, ir::DType);

}  // namespace ingot::kernels
