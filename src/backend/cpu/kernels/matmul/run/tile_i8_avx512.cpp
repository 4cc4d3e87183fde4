#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile_i8.h"

// The code below is for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define LANES 16
#define VECTORS 2
#include "backend/cpu/kernels/matmul/run/tile.inc"
#include "backend/cpu/kernels/matmul/run/tile_i8.inc"

using Rows = All<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const Int8Panels int8_panels_avx512{Rows::tiles<I8>, to_f32, nullptr};

}  // namespace ingot::kernels
