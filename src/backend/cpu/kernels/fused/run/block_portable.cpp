#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"

// Headers above are compiled for every machine; the code below for one instruction set.
#include "backend/cpu/run/isa/portable.inc"

namespace ingot::kernels {

#define INGOT_TABLE block_ops_portable
#include "backend/cpu/kernels/fused/run/block_ops.inc"

}  // namespace ingot::kernels
