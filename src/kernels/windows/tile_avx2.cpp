#include "kernels/windows/tile.h"

// What follows is for one instruction set only.
#pragma GCC target("avx2,fma")
namespace ingot::kernels {

#define LANES 8
#define TABLE window_tiles_avx2
#include "kernels/windows/tile.inc"

}  // namespace ingot::kernels
