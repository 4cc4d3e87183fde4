#include <immintrin.h>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

// The code below is for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512")
namespace ingot::kernels {

#define LANES 16
#define TABLE line_tiles_avx512
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
