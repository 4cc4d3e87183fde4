#include "backend/cpu/kernels/fourier/run/tile_fourier.h"

#include <utility>

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 64
#define INGOT_TABLE fourier_ops_avx512
#include "backend/cpu/kernels/fourier/run/tile_fourier.inc"

}  // namespace ingot::kernels
