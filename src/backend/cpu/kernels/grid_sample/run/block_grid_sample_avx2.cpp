#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define INGOT_TABLE grid_sample_ops_avx2
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
