#include <immintrin.h>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

namespace ingot::kernels {

#define LANES 4
#define TABLE line_tiles_portable
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
