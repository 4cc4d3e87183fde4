#include "kernels/windows/tile.h"

namespace ingot::kernels {

#define LANES 4
#define TABLE window_tiles_portable
#include "kernels/windows/tile.inc"

}  // namespace ingot::kernels
