#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile_i8.h"

// The code below is for one instruction set.
#pragma GCC target("avx2,fma,f16c")
namespace ingot::kernels {

#define LANES 8
#define VECTORS 2
#define ENDS tile_ends_avx2
#include "backend/cpu/kernels/matmul/run/tile.inc"
#include "backend/cpu/kernels/matmul/run/tile_i8.inc"

using Rows = All<1, 2, 3, 4, 5, 6>;
const Int8Panels int8_panels_avx2{Rows::tiles<I8>, to_f32, nullptr};

}  // namespace ingot::kernels
