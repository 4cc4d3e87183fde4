#include <type_traits>

#include "backend/cpu/kernels/sort/run/block_keys.h"

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define INGOT_TABLE key_ops_avx512
#include "backend/cpu/kernels/sort/run/block_keys.inc"

}  // namespace ingot::kernels
