#include "backend/cpu/kernels/fourier/run/tile_fourier.h"

#include <utility>

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define INGOT_TABLE fourier_ops_avx512
#include "backend/cpu/kernels/fourier/run/tile_fourier.inc"

}  // namespace ingot::kernels
