// "gemm_im2col_3d": convolutions of volumes with few channels and stride 1.
#pragma once
#include <vector>

#include "backend/cuda/kernels/gemm/im2col_3d/run/shape.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

namespace ingot::kernels {

std::vector<std::byte> serialise(const Im2col3d&);
// Error (format).
Im2col3d parse_im2col_3d(std::span<const std::byte>, const GemmArgs&);

}  // namespace ingot::kernels
