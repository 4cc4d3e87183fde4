#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

// What follows is for one instruction set only.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,prefer-vector-width=512")
namespace ingot::kernels {

#define LANES 16
#define VECTORS 2
#include "backend/cpu/kernels/matmul/run/tile.inc"

using All = Tiles<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const TileOps tile_ops_avx512{14, LANES* VECTORS, All::list, All::in_order, multiply_adds};

}  // namespace ingot::kernels
