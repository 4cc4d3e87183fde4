// Register tiles of depthwise convolutions, one table per instruction set.
#pragma once
#include <cstdint>

#include "backend/cpu/kernels/depthwise_conv/run/tuning.h"
#include "backend/cpu/kernels/run/sum_end.h"
#include "backend/cpu/kernels/run/window_taps.h"

namespace ingot::kernels {

struct DepthwiseConvTiles {
  static constexpr int outputs = depthwise::tuning::outputs_of_tile;
  int lanes;                         // channels per vector; fewer channels are slow
  // to[o * to_step + c] = sum over taps of a[tap.a + o * a_step + c] * b[tap.b + c], for the outputs of the tile and all channels, then the epilogue `end`.
  using Tile = void (*)(const float* a, int64_t a_step, const float* b, const WindowTap* taps, int64_t count, float* to, int64_t to_step, int64_t channels, const SumEnd& end);
  const Tile* tile;                  // by number of outputs, 1 .. outputs
};

const DepthwiseConvTiles& depthwise_conv_tiles();
extern const DepthwiseConvTiles depthwise_conv_tiles_portable, depthwise_conv_tiles_avx2, depthwise_conv_tiles_avx512;

}  // namespace ingot::kernels
