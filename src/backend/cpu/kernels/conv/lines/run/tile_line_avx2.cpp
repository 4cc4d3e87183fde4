#include <immintrin.h>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

// The code below is for one instruction set.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define LANES 8
#define TABLE line_tiles_avx2
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
