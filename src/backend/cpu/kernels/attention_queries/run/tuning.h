// The numbers of attention query by query on the CPU: AMD EPYC (AVX-512), one thread, `python bench/operators.py --kinds attention`, 30 November 2026.
#pragma once
#include <cstdint>

namespace ingot::kernels::attention_queries::tuning {

// Keys whose scores are known before their values are read (2 KB of scores stay in a first-level cache, and a maximum is taken for each block): an estimate, not measured apart.
inline constexpr int64_t key_block = 512;
// Nanoseconds of a key in addition to its bytes, for its score and its weight: 1 and 2 queries, 64 heads of 64 keys and 16 of 2,048.
inline constexpr double ns_of_key = 5;

}  // namespace ingot::kernels::attention_queries::tuning
