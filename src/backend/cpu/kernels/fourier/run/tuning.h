// The numbers of transforms on the CPU: AMD EPYC, `python bench/fourier.py`.
#pragma once
#include <cstdint>

namespace ingot::kernels::fourier_tuning {

// Bytes of the rows that are transformed side by side, so that they stay in a second-level cache of 1 MB. An estimate.
inline constexpr int64_t side_by_side_bytes = 1 << 20;
// Rows that are transformed at once, at most: floats of the widest vector.
inline constexpr int64_t rows_at_once = 16;
// Elements of a worker's task at least. Two workers of an AMD EPYC were as fast with 1024 and with 65536.
inline constexpr int64_t task_elements = 8192;
// Elements between the arrays of a transform: those of a power of two would lie in the same sets of the first-level cache. With it 64 transforms of 4096 real f32 take 0.83 of the time (AMD EPYC, AVX2, one
// thread); lengths that are not a power of two are as fast without.
inline constexpr int64_t gap_elements = 80;

}  // namespace ingot::kernels::fourier_tuning
