#include <immintrin.h>

#include "backend/cpu/kernels/run/tile_end.h"

namespace ingot::kernels {

#define LANES 4
#define TABLE tile_ends_portable
#include "backend/cpu/kernels/run/tile_end.inc"

}  // namespace ingot::kernels
