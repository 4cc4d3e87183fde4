#include "backend/cpu/kernels/depthwise_conv/run/tile.h"

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define ENDS tile_ends_portable
#define TABLE depthwise_conv_tiles_portable
#include "backend/cpu/kernels/depthwise_conv/run/tile.inc"

}  // namespace ingot::kernels
