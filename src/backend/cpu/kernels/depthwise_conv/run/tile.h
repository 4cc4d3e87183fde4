// Register tiles of sums over windows, one table an instruction set.
#pragma once
#include <cstdint>

namespace ingot::kernels {

// What is summed: elements from the places given.
struct Tap {
  int64_t a, b;
};

struct DepthwiseConvTiles {
  static constexpr int outputs = 6;  // of the largest tile
  int lanes;                         // fewer channels are slow
  // to[o * to_step + c] = start[c] + sum over taps of a[tap.a + o * a_step + c] * b[tap.b + c] for the outputs of the tile and all channels, in the order
  // of the taps. start may be null: zeros.
  using Tile = void (*)(const float* a, int64_t a_step, const float* b, const Tap* taps, int64_t count, const float* start, float* to, int64_t to_step, int64_t channels);
  const Tile* tile;                  // by number of outputs, 1 .. outputs
};

const DepthwiseConvTiles& depthwise_conv_tiles();
extern const DepthwiseConvTiles depthwise_conv_tiles_portable, depthwise_conv_tiles_avx2, depthwise_conv_tiles_avx512;

}  // namespace ingot::kernels
