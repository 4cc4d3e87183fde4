#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.h"

#include <cmath>
#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 64
#define INGOT_TABLE matrix_ops_avx512
#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.inc"

}  // namespace ingot::kernels
