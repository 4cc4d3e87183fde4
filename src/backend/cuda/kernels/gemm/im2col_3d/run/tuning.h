// How volumes of few channels are divided among blocks. H100 and H200, `python bench/convolutions.py` (docs/performance-notes/convolutions_cuda.md, 0073).
#pragma once
#include <cstdint>

namespace ingot::kernels::gemm::im2col_3d_tuning {

inline constexpr int across = 16;  // columns of a block of outputs
inline constexpr int max_steps = 16;  // steps along K of a line of a window
inline constexpr int64_t min_blocks = 96;  // blocks of a launch, for the 132 multiprocessors of an H200: with fewer, blocks are smaller. `python bench/constants.py --device cuda --only volumes`: of 48 five problems take 0.96 to 1.05 of the time, of 192 0.96 to 1.68
inline constexpr int shared_bytes = 220 << 10;  // bytes of shared memory of a block on Hopper, less than the 227 KB that there are

}  // namespace ingot::kernels::gemm::im2col_3d_tuning
