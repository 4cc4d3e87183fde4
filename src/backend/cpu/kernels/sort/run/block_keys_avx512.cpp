#include <type_traits>

#include "backend/cpu/kernels/sort/run/block_keys.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define INGOT_TABLE key_ops_avx512
#include "backend/cpu/kernels/sort/run/block_keys.inc"

}  // namespace ingot::kernels
