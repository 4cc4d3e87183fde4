// Which shape of attention's kernel computes rows of known lengths. H100 and H200, `INGOT_MEASURE=1 test_backend_cuda --gtest_filter=cuda_attention.speed` (docs/performance-notes/attention.md: 0034, 0077, 0090).
#pragma once
#include <cstdint>

namespace ingot::kernels::attention_cuda_tuning {

// Rows of queries from which shapes go by the size of heads; from which heads of 56 and 64 are copied as boxes.
inline constexpr int64_t long_queries = 512, very_long_queries = 1088;
// Rows of keys that one iteration computes (77 of a text), and from which the loop over keys is worth boxes.
inline constexpr int64_t one_iteration = 80, many_keys = 256;

}  // namespace ingot::kernels::attention_cuda_tuning
