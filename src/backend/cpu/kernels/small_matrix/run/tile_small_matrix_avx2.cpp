#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.h"

#include <cmath>
#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 32
#define INGOT_TABLE matrix_ops_avx2
#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.inc"

}  // namespace ingot::kernels
