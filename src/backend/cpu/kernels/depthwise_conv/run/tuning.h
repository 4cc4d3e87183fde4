// The numbers of depthwise convolutions on the CPU; rates are the machine's (base/machine.h).
#pragma once
#include <cstdint>

namespace ingot::kernels::depthwise::tuning {

// Products, in the machine's wakes at its peak: with less, other workers take longer to start than to compute. AMD EPYC (Zen 5), two threads, `ingot bench PLAN --steps --threads 2`
// (docs/performance-notes/calls_and_threads.md).
inline constexpr double least_wakes = 0.68;
inline constexpr double max_imbalance = 0.05;  // of lines: the share that a worker may have above the mean before lines are cut (calls_and_threads.md, the same)
inline constexpr int64_t repeated_bytes = 24 << 10;  // of B's rows, repeated for outputs side by side: what stays in a first-level cache of 32 KB together with the image

// Fitted to 48 depthwise convolutions (those of bench/convolutions.py, and of 8, 32 and 128 channels with kernels of 3 and 5, steps of 1 and 2, images of 14 and 56), alone: AMD EPYC (Zen 4,
// 3.69 GHz) with AVX-512, one thread, `python bench/offers.py --only depthwise`, 29 November 2026: 92 % within 10 % of the faster kernel, mean loss 2.8 %.
// Vectors of products at the machine's peak that take as long: a product of a vector of channels; of outputs of a line; to begin and end such a vector.
inline constexpr double of_channels = 1.8, of_lines = 1.05, vector_of_line = 14.7;
// Cycles of copies into and out of the order in which channels are neighbours: an element of the image, more where channels do not fill a vector, and an element of the result.
inline constexpr double copied_image = 0.32, copied_narrow_channels = 0.43, copied_result = 0.94;
// Cycles of the copy of an image along lines: an element, and a line.
struct Copy {
  double element, run;
};
inline constexpr Copy copy_of_line{0.11, 15}, copy_of_steps{0.08, 45};

// Outputs of the largest register tile: an estimate, which `python bench/offers.py --only depthwise` measures.
inline constexpr int outputs_of_tile = 6;

}  // namespace ingot::kernels::depthwise::tuning
