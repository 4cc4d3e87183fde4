// The operands of Hopper's tile kernels as tensor maps: A as a matrix, an image or a volume, and B.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cuda/kernels/gemm/run/gemm_call.h"
#include "backend/cuda/kernels/gemm/tiles/run/parameters.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// False if tiles of this many elements along K multiply mostly zeros, since each tap of a window begins a new one.
inline bool fills_tiles(int64_t taps, int64_t channels, int64_t depth) { return taps == 1 || 4 * channels >= 3 * divided_up(channels, depth) * depth; }

// The tensor maps of A and B, and the walk along K: `taps` taps of `chunks` rows of a tile.
struct TileMaps {
  CudaTiles a;
  std::vector<CudaTiles> b;  // its parts
  int64_t taps, chunks;
};
// Also sets the positions of pixels in the parameters. nullopt if the copying unit cannot describe A or B.
template <int Parts>
std::optional<TileMaps> tiles_of(const GemmCall&, TilesParametersOf<Parts>&);

}  // namespace ingot::kernels
