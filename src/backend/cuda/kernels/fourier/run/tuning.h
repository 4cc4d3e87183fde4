// How short transforms are put into blocks. Measured on an H200 by `INGOT_MEASURE=1 test_backend_cuda --gtest_filter=cufft.speed`.
#pragma once
#include <cstdint>

namespace ingot::kernels::fourier_tuning {

inline constexpr int threads = 128;                   // of a block, for transforms as for copies: threads (not measured)
inline constexpr int64_t shared_bytes = 48 << 10;     // bytes of a block's shared memory: what CUDA gives without asking for more
// Transforms of a block, where they are short. H200, float32: of 64 instead of 32, many rows of 2 or 4 numbers take 0.5 to 0.8 of the time, longer ones the same; 128 lose up to half for 4. Half as many
// numbers take 1.1 to 1.4 times as long for 64000 rows of 16 to 256, and twice as many 1.3 to 1.6 times for 64 rows of 32 to 512.
inline constexpr int64_t group_elements = 512;  // complex numbers
inline constexpr int max_group_transforms = 64;
// Transforms of a block that lie across: their elements at one place fill 64 bytes of float32 pairs, two sectors of memory. Other numbers were not measured.
inline constexpr int across_transforms = 8;

}  // namespace ingot::kernels::fourier_tuning
