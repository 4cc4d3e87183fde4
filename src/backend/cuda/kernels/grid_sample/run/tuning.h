// How sampling is divided among threads. On an H200 (docs/performance-notes/operators.md) these are 0.05 to 0.9 of eager's time; other values were not measured.
#pragma once
#include <cstdint>

namespace ingot::kernels::sample::tuning {

inline constexpr int block = 128;  // points, or vectors of channels, of a thread block: an estimate
// Lines of channels are shared out until each multiprocessor has so many points: an estimate.
inline constexpr int64_t busy_points = 1024;

// Channels up to which linear sampling is computed here; a fused body, which does not write what the next operation reads, is taken for more. H200, float32, time over eager's at random
// and at neighbouring places, this kernel and a fused body: 1 channel 0.99, 1.23 and 1.35, 0.81; 3 of 512 x 512 1.01, 1.30 and 1.50, 1.54; 8 1.00, 1.35 and 1.42, 1.96; 32 1.27, 0.89 and
// 1.02, 1.56; 64 of 56 x 56 1.05, 0.47 and 0.82, 1.03. Channels that are neighbours in memory were not measured.
inline constexpr int64_t linear_channels = 64;

}  // namespace ingot::kernels::sample::tuning
