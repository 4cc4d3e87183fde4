#include <type_traits>

#include "backend/cpu/kernels/sort/run/block_keys.h"

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx2,fma,f16c")
namespace ingot::kernels {

#define INGOT_TABLE key_ops_avx2
#include "backend/cpu/kernels/sort/run/block_keys.inc"

}  // namespace ingot::kernels
