#include <immintrin.h>

#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

#include "backend/cpu/run/isa/avx2.inc"

namespace ingot::kernels {

#define INGOT_TABLE block_ops_avx2
#include "backend/cpu/kernels/fused/run/block_ops.inc"

}  // namespace ingot::kernels
