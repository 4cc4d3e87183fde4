#include <type_traits>

#include "backend/cpu/kernels/sort/run/block_keys.h"

#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define INGOT_TABLE key_ops_portable
#include "backend/cpu/kernels/sort/run/block_keys.inc"

}  // namespace ingot::kernels
