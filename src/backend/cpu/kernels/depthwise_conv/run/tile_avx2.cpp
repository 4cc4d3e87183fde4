#include <immintrin.h>

#include "backend/cpu/kernels/depthwise_conv/run/tile.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define ENDS tile_ends_avx2
#define TABLE depthwise_conv_tiles_avx2
#include "backend/cpu/kernels/depthwise_conv/run/tile.inc"

}  // namespace ingot::kernels
