#include <immintrin.h>

#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

// Headers above are compiled for every machine; the code below for one instruction set.
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c,prefer-vector-width=512")
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 64
#define INGOT_TABLE block_ops_avx512
#include "backend/cpu/kernels/fused/run/block_ops.inc"

}  // namespace ingot::kernels
