#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define TABLE line_tiles_portable
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
