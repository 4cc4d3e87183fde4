// How lines of a scatter are cut on the CPU. AMD EPYC, `python bench/operators.py` (docs/performance-notes/operators.md), and an Intel Xeon with AMX, `python bench/constants.py --only scatter`
// (docs/performance-notes/evidence.md: numbers beside others).
#pragma once
#include <cstdint>

namespace ingot::kernels::scatter_cpu_tuning {

// Elements of a line whose places are found, or sums are kept, at once: 2 KB of a first-level cache of 32 KB.
inline constexpr int64_t elements_at_once = 256;
// Elements of updates, and of an index along one axis, from which workers divide them: waking workers takes about as long as so many.
inline constexpr int64_t least_divided = 30000, least_divided_along = 20000;
// Updates for each element of a result of halves from which these are added up in floats, since the result is then converted twice: 0.7 and 1.5 updates
// for each element take 0.5 to 0.8 of the time with 2 that they take with 0.5.
inline constexpr double updates_of_element = 2;

}  // namespace ingot::kernels::scatter_cpu_tuning
