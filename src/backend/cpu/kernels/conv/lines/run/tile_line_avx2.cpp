#include <immintrin.h>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define TABLE line_tiles_avx2
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
