#include "backend/cpu/kernels/conv/run/tile.h"

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define ENDS tile_ends_portable
#define TABLE direct_tiles_portable
#include "backend/cpu/kernels/conv/run/tile.inc"

}  // namespace ingot::kernels
