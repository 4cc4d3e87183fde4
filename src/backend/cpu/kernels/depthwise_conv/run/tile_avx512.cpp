#include <immintrin.h>

#include "backend/cpu/kernels/depthwise_conv/run/tile.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define ENDS tile_ends_avx512
#define TABLE depthwise_conv_tiles_avx512
#include "backend/cpu/kernels/depthwise_conv/run/tile.inc"

}  // namespace ingot::kernels
