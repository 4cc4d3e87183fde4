// Where `moments` pay on a GPU, compared with a fused body, which gives each row one block. H100 and H200 (docs/performance-notes/fused_bodies.md).
#pragma once
#include <cstdint>

namespace ingot::kernels::moments_cuda_tuning {

inline constexpr int64_t min_row = 8192, max_rows = 1024;  // elements of a row at least; rows at most
inline constexpr int threads = 256;                          // of a block, for columns side by side or one row: not measured

}  // namespace ingot::kernels::moments_cuda_tuning
