#include <immintrin.h>

#include <utility>

#include "backend/cpu/kernels/matmul/short/run/tile_near.h"

#include "backend/cpu/run/isa/avx512.inc"
#define TABLE near_tiles_avx512
#include "backend/cpu/kernels/matmul/short/run/tile_near.inc"
