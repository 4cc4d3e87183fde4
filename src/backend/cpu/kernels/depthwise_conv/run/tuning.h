// The numbers behind depthwise convolutions on the CPU; rates are the machine's (base/machine.h).
#pragma once
#include <cstdint>

namespace ingot::kernels::depthwise::tuning {

// Products, in the machine's wakes at its peak: with less, other workers take longer to start than to compute. AMD EPYC (Zen 5), two threads, `ingot bench PLAN --steps --threads 2`
// (docs/performance-notes/calls_and_threads.md).
inline constexpr double least_wakes = 0.68;
inline constexpr double most_uneven = 0.05;  // of lines: the share that a worker may have above the mean before lines are cut (calls_and_threads.md, the same)
inline constexpr int64_t repeated_bytes = 24 << 10;  // of B's rows, repeated for outputs side by side: what stays in a first-level cache of 32 KB beside the image

// Vectors of products at the machine's peak that take as long: a product of a vector of channels, and to begin and end its sum. Cycles of copies: an element of the image, and one of the
// result.
inline constexpr double of_channels = 1.2, vector_of_channels = 7;
inline constexpr double copied_image = 0.3, copied_result = 0.8;

}  // namespace ingot::kernels::depthwise::tuning
