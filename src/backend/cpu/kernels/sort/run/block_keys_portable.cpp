#include <type_traits>

#include "backend/cpu/kernels/sort/run/block_keys.h"

namespace ingot::kernels {

#define INGOT_TABLE key_ops_portable
#include "backend/cpu/kernels/sort/run/block_keys.inc"

}  // namespace ingot::kernels
