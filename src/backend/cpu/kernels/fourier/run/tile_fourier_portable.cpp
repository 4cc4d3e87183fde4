#include "backend/cpu/kernels/fourier/run/tile_fourier.h"

#include <utility>

namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 16
#define INGOT_TABLE fourier_ops_portable
#include "backend/cpu/kernels/fourier/run/tile_fourier.inc"

}  // namespace ingot::kernels
