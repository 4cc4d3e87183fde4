#include <immintrin.h>

#include "backend/cpu/kernels/conv/run/tile.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define ENDS tile_ends_avx2
#define TABLE direct_tiles_avx2
#include "backend/cpu/kernels/conv/run/tile.inc"

}  // namespace ingot::kernels
