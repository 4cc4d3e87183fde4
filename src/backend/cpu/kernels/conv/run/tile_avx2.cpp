#include <immintrin.h>

#include "backend/cpu/kernels/conv/run/tile.h"

// The code below is for one instruction set.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define LANES 8
#define ENDS tile_ends_avx2
#define TABLE direct_tiles_avx2
#include "backend/cpu/kernels/conv/run/tile.inc"

}  // namespace ingot::kernels
