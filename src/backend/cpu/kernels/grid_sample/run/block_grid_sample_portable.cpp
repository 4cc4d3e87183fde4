#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define INGOT_TABLE grid_sample_ops_portable
#include "backend/cpu/kernels/grid_sample/run/block_grid_sample.inc"

}  // namespace ingot::kernels
