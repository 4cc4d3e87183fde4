// How lines are sorted, and their least keys are chosen, on the CPU. AMD EPYC (Zen 4), one thread, `INGOT_MEASURE=1 test_backend_cpu --gtest_filter=sort.speed`, 30 November 2026, on a machine that others
// used.
#pragma once
#include <cstdint>

namespace ingot::kernels::sort_cpu_tuning {

// Elements up to which comparing them is faster than counting their bytes, since counters of 1 KB a byte are cleared first. 128 random keys of 4 bytes take 0.46 us and 1.09, 192 0.96 and 1.46, 512 3.5 and
// 3.7; of 8 bytes 192 1.4 and 3.1. Of keys below 1000, two bytes, 128 take 0.45 and 0.76, 192 0.95 and 1.0, 256 1.5 and 1.3.
inline constexpr int64_t max_compared = 192;
// Chosen elements up to which each takes its place among those that are kept; more are selected now and then. 16 of 1,000 take 1.0 and 1.0 us, 32 1.7 and 1.4, 64 3.4 and 2.1; 16 of 10,000 4.6 and 5.5, 32 6.0
// and 7.3, 64 10.2 and 9.1.
inline constexpr int64_t max_inserted = 32;
// The elements that a line has at most for each that is chosen, if the line is sorted whole: 250 of 1,000 take 3.6 us by selection and 6.8 sorted. Elements that are kept for each that is chosen, before all
// but the least are dropped: 2, 4 and 8 are as fast.
inline constexpr int64_t sorted_share = 3, kept_share = 4;
// Elements whose keys are compared with the limit at once, 256 or 512 bytes: an estimate.
inline constexpr int64_t keys_at_once = 64;

}  // namespace ingot::kernels::sort_cpu_tuning
