// How depthwise convolutions are divided among threads on a GPU. H100 and H200, `python bench/convolutions.py` (docs/performance-notes/convolutions_cuda.md: depthwise); where a line names no
// measurement it is an estimate.
#pragma once
#include <cstdint>

namespace ingot::kernels::depthwise_cuda_tuning {

// Outputs of a line and channels of a thread: four channels by eight outputs load half as many taps as eight by four (convolutions_cuda.md). Threads that keep a multiprocessor busy: of an image that
// gives fewer, threads have fewer outputs, so that more multiprocessors wait for memory.
inline constexpr int64_t max_outputs_of_thread = 8, threads_of_multiprocessor = 256;
inline constexpr uint8_t channels_of_thread = 4;
// Registers for what is loaded together.
inline constexpr int64_t held_registers = 90;
// Blocks of a multiprocessor. Told so, the compiler uses registers for loads that overlap; else it delays loads until as many threads as possible fit.
inline constexpr int blocks_of_multiprocessor = 4;
// Taps of the largest kernel, 13 x 13: a bound of printed code.
inline constexpr int64_t max_taps = 169;

}  // namespace ingot::kernels::depthwise_cuda_tuning
