#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

// The code below is for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define LANES 16
#define VECTORS 2
#define ENDS tile_ends_avx512
#include "backend/cpu/kernels/matmul/run/tile.inc"

using Rows = All<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const TileOps tile_ops_avx512{LANES * VECTORS, Rows::tiles_f32(), Rows::tiles<F16>, Rows::tiles<Bf16>, wide_tiles<double>, wide_tiles<uint64_t>, widen, small_products};

}  // namespace ingot::kernels
