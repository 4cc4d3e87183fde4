#include <immintrin.h>

#include "backend/cpu/kernels/run/tile_end.h"

// What follows is for one instruction set only.
#pragma GCC target("avx2,fma,f16c")
namespace ingot::kernels {

#define LANES 8
#define TABLE tile_ends_avx2
#include "backend/cpu/kernels/run/tile_end.inc"

}  // namespace ingot::kernels
