// How lines are sorted, and their least keys are chosen, on the CPU. AMD EPYC (Zen 4), AVX2, one thread, `INGOT_MEASURE=1 test_backend_cpu --gtest_filter=sort.speed`, 30 November 2026, on a machine that
// others used.
#pragma once
#include <cstdint>

namespace ingot::kernels::sort_cpu_tuning {

// Elements up to which comparing them is faster than counting their bytes, since counters of 1 KB a byte are cleared first. 128 random keys of 4 bytes take 0.65 us and 0.94, 256 1.5 and 1.5; of 8 bytes
// 0.86 and 1.8, 512 4.2 and 5.3. Of keys below 1000, two bytes, 96 take 0.45 and 0.48, 256 1.5 and 0.9.
inline constexpr int64_t max_compared = 128;
// Chosen elements up to which each takes its place among those that are kept; more are selected now and then. 8 of 10,000 take 3.2 and 3.4 us, 16 4.6 and 4.5, 32 6.1 and 5.5, 64 12.4 and 7.4.
inline constexpr int64_t max_inserted = 16;
// The elements that a line has at most for each that is chosen, if the line is sorted whole: a third of 10,000 takes 52 us by selection and 51 sorted, a quarter 41 and 51. Elements that are kept for
// each that is chosen, before all but the least are dropped: 2, 4 and 8 are as fast.
inline constexpr int64_t sorted_share = 3, kept_share = 4;
// Elements whose keys are compared with the limit at once, 256 or 512 bytes: an estimate.
inline constexpr int64_t keys_at_once = 64;

}  // namespace ingot::kernels::sort_cpu_tuning
