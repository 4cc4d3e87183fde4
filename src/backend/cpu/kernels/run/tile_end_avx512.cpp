#include <immintrin.h>

#include "backend/cpu/kernels/run/tile_end.h"

// What follows is for one instruction set only.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define LANES 16
#define TABLE tile_ends_avx512
#include "backend/cpu/kernels/run/tile_end.inc"

}  // namespace ingot::kernels
