// How lines are sorted, and their least keys are chosen, on the CPU. AMD EPYC (Zen 4), one thread, `test_backend_cpu --gtest_filter=sort.speed` (one time each; with INGOT_MEASURE=1 many), 30 November 2026.
#pragma once
#include <cstdint>

namespace ingot::kernels::sort_cpu_tuning {

// Elements up to which comparing them is faster than counting their bytes, since counters of 1 KB a byte are cleared first. A line that is sorted for the first time, whose branches nothing could learn: 64 random keys of
// 4 bytes take 1.26 us and 0.92, of 8 bytes 1.37 and 1.65, 32 keys 0.55 and 0.74, 96 keys 1.9 and 1.0. The same line again and again is sorted by comparing three times as fast, which no model does.
inline constexpr int64_t max_compared = 64;
// Chosen elements up to which each takes its place among those that are kept; more are selected now and then. For the first time 32 of 1,000 take 4.1 and 5.1 us, 64 7.9 and 7.6; 32 of 10,000 15 and 17, 64 23 and 22.
inline constexpr int64_t max_inserted = 64;
// The elements that a line has at most for each that is chosen, if the line is sorted whole: 250 of 1,000 take 12 us by selection and 6.3 sorted, for the first time. Elements that are kept for each that is chosen,
// before all but the least are dropped: 2, 4 and 8 are as fast.
inline constexpr int64_t sorted_share = 4, kept_share = 4;
// Elements whose keys are compared with the limit at once, 256 or 512 bytes: an estimate.
inline constexpr int64_t keys_at_once = 64;

}  // namespace ingot::kernels::sort_cpu_tuning
