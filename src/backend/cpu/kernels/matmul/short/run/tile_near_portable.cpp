#include <utility>

#include "backend/cpu/kernels/matmul/short/run/tile_near.h"

#include "backend/cpu/run/isa/portable.inc"
#define TABLE near_tiles_portable
#include "backend/cpu/kernels/matmul/short/run/tile_near.inc"
