#include <immintrin.h>

#include "backend/cpu/kernels/conv/run/tile.h"

namespace ingot::kernels {

#define LANES 4
#define ENDS tile_ends_portable
#define TABLE direct_tiles_portable
#include "backend/cpu/kernels/conv/run/tile.inc"

}  // namespace ingot::kernels
