// Elements of an image at given places, a block of points at a time, one table per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/grid_sample/run/grid_sample_args.h"

namespace ingot::kernels {

// Points of a block, each of which reads taps x taps elements: their tables stay in the first-level cache, and writes of many channels follow one another.
constexpr int64_t points_at_once(int taps) { return taps == 1 ? 512 : taps == 2 ? 256 : 64; }
inline constexpr int64_t max_points = points_at_once(1);

// Some points of one image, all channels. Steps are in elements.
struct SampleBlock {
  const GridSampleArgs* args = nullptr;
  int64_t size[2] = {};                       // of the image: rows, columns
  int64_t channels = 0;
  const float* x = nullptr;
  int64_t step[2] = {}, channel_step = 1;
  const float* zeros = nullptr;               // for pixels: what is read outside, `channels` of them
  const float* grid = nullptr;
  int64_t grid_step = 0, grid_axis_step = 0;  // to the next point; from the place on the last axis to that before it
  float* to = nullptr;
  int64_t to_step = 0, to_channel_step = 0;
  int64_t points = 0;
};

struct GridSampleOps {
  int lanes;                             // f32 in a vector
  void (*elements)(const SampleBlock&);  // gathers each channel's elements one by one
  void (*pairs)(const SampleBlock&);     // linear: neighbours in a row are read together. A row has at least 2 elements, without gaps
  void (*pixels)(const SampleBlock&);    // reads vectors of channels. There are at least `lanes` of these, without gaps
};

extern const GridSampleOps grid_sample_ops_portable;
extern const GridSampleOps grid_sample_ops_avx2;
extern const GridSampleOps grid_sample_ops_avx512;

}  // namespace ingot::kernels
