// How images of few channels are divided among blocks. H100 and H200, `python bench/convolutions.py` (docs/performance-notes/convolutions_cuda.md); the numbers are estimates.
#pragma once

namespace ingot::kernels::gemm::im2col_2d_tuning {

inline constexpr int down = 8, across = 16;  // lines and columns of a block of outputs
inline constexpr int max_steps = 20;         // steps along K: all of B is in registers

}  // namespace ingot::kernels::gemm::im2col_2d_tuning
