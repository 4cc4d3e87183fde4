// The numbers of attention query by query on the CPU: an AMD EPYC (Zen 4), `INGOT_OFFER=attention` and `INGOT_OFFER=attention_queries` in turn, 1 to 32 queries, 64 heads of 64 keys and 16 of 2,048
// (docs/performance-notes/fused_bodies.md, 0129).
#pragma once
#include <cstdint>

namespace ingot::kernels::attention_queries::tuning {

// Elements of scores that are known before values are read: 2 KB of scores stay in a first-level cache of 32 KB. An estimate.
inline constexpr int64_t key_block = 512;
// Tasks of a worker. Sequences with keys of their own differ in work: there, smaller tasks leave no worker alone with the longest one (not measured).
inline constexpr int64_t tasks_of_worker = 4, tasks_of_uneven = 32;
// Nanoseconds of a key beside its bytes: its score and its weight.
inline constexpr double ns_of_key = 5;

}  // namespace ingot::kernels::attention_queries::tuning
