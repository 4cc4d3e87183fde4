// How sampling is divided among threads. On an H200 (docs/performance-notes/operators.md) these are 0.05 to 0.9 of eager's time; other values were not measured.
#pragma once
#include <cstdint>

namespace ingot::kernels::sample::tuning {

inline constexpr int block = 128;  // points, or vectors of channels, of a thread block: an estimate
// Lines of channels are shared out until each multiprocessor has so many points: an estimate.
inline constexpr int64_t busy_points = 1024;

// Channels up to which linear sampling is computed here: a fused body computes a point's place and weights for each channel again, but does not write what the next operation reads.
inline constexpr int64_t linear_channels = 4;

}  // namespace ingot::kernels::sample::tuning
