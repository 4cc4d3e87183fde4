#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.h"

#include <cmath>
#include <utility>

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define INGOT_TABLE matrix_ops_portable
#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.inc"

}  // namespace ingot::kernels
