#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 32
#define INGOT_TABLE grid_sample_ops_avx2
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
