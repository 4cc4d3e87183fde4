#include <immintrin.h>

#include "backend/cpu/kernels/conv/run/tile.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define ENDS tile_ends_avx512
#define TABLE direct_tiles_avx512
#include "backend/cpu/kernels/conv/run/tile.inc"

}  // namespace ingot::kernels
