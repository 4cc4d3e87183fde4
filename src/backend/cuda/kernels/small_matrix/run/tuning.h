// How small matrices are divided among threads on a GPU. H200 (docs/performance-notes/evidence.md: evidence of 0096); the number is an estimate.
#pragma once

namespace ingot::kernels::small_matrix_cuda_tuning {

inline constexpr int threads = 128;  // of a block, which has several matrices: lanes of one warp share a matrix

}  // namespace ingot::kernels::small_matrix_cuda_tuning
