#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 16
#define INGOT_TABLE grid_sample_ops_portable
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
