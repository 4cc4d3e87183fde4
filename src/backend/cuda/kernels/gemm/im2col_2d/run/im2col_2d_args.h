// "gemm_im2col_2d": convolutions of images with few channels.
#pragma once
#include <vector>

#include "backend/cuda/kernels/gemm/im2col_2d/run/shape.h"
#include "backend/cuda/kernels/gemm/run/gemm_args.h"

namespace ingot::kernels {

// The arguments: one kernel for each layout that A may have.
std::vector<std::byte> serialise(const std::vector<Im2col2d>&);
// Error (format).
std::vector<Im2col2d> parse_im2col_2d(std::span<const std::byte>, const GemmArgs&);

}  // namespace ingot::kernels
