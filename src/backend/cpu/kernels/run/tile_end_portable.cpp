#include "backend/cpu/kernels/run/tile_end.h"

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define TABLE tile_ends_portable
#include "backend/cpu/kernels/run/tile_end.inc"

}  // namespace ingot::kernels
