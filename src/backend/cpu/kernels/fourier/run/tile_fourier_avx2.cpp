#include "backend/cpu/kernels/fourier/run/tile_fourier.h"

#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 32
#define INGOT_TABLE fourier_ops_avx2
#include "backend/cpu/kernels/fourier/run/tile_fourier.inc"

}  // namespace ingot::kernels
