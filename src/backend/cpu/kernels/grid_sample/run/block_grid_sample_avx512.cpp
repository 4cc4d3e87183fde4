#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 64
#define INGOT_TABLE grid_sample_ops_avx512
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
