// Where `moments` pay on a GPU beside a fused body, which gives each row one block. H100 and H200 (docs/performance-notes/fused_bodies.md).
#pragma once
#include <cstdint>

namespace ingot::kernels::moments_cuda_tuning {

inline constexpr int64_t long_row = 8192, many_rows = 1024;  // elements of a row at least; rows at most

}  // namespace ingot::kernels::moments_cuda_tuning
