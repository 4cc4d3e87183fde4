#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define INGOT_TABLE grid_sample_ops_avx512
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
