// Parameters and names of the CUDA kernels for sampling, linear or cubic.
//
// Two forms. `sample_points`: neighbouring threads have neighbouring points, each with a share of the channels. `sample_vectors`, for channels that are neighbours
// in memory: neighbouring threads have vectors of 16 bytes of one point's channels.
#pragma once
#include <string>

#include "backend/cuda/kernels/grid_sample/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/grid_sample/run/grid_sample_args.h"

// Steps in elements. Axes: of the points; x, grid and result are walked over.
#define INGOT_CUDA_GRID_SAMPLE \
  struct SampleCudaParameters { \
    unsigned long x, grid, to; \
    long size[2], step[2]; /* of the image */ \
    long channels, channel_step, to_channel_step, grid_step; \
    long points, shares, channels_of_share; \
    CudaAxes<3> axes; \
  };

namespace ingot::kernels {

INGOT_CUDA_GRID_SAMPLE

inline constexpr const char *sample_points = "_points", *sample_vectors = "_vectors";

// Channels in 16 bytes.
inline int sample_vector(ir::DType type) { return static_cast<int>(16 / ir::size_of(type)); }
std::string grid_sample_cuda_name(const GridSampleArgs &, ir::DType);

}  // namespace ingot::kernels
