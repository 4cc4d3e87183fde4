#include <immintrin.h>

#include "backend/cpu/kernels/run/tile_end.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define TABLE tile_ends_avx2
#include "backend/cpu/kernels/run/tile_end.inc"

}  // namespace ingot::kernels
