#include <immintrin.h>

#include "backend/cpu/kernels/conv/lines/run/line_tile.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define TABLE line_tiles_avx512
#include "backend/cpu/kernels/conv/lines/run/line_tile.inc"

}  // namespace ingot::kernels
