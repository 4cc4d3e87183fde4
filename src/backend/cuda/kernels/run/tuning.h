// The numbers of launches, and of kernels that sum windows. H100 and H200; estimates are measured by `python bench/convolutions.py --device cuda`.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels::launch_tuning {

// Parameters of one kernel: a bound of memory.
inline constexpr size_t max_parameters = 128;
// Threads of a block that sums windows, one after another along lines or channels, so that neighbours share what they read.
inline constexpr uint32_t window_threads = 128;

// Products that are printed one after another, without a loop: a bound of printed code.
inline constexpr int64_t max_printed_products = 400;

}  // namespace ingot::kernels::launch_tuning
