#include <immintrin.h>

#include <cmath>
#include <type_traits>

#include "base/error.h"
#include "ir/half.h"
#include "ir/scalar_functions.h"
#include "kernels/fused/block_ops.h"

// The headers above are compiled for every machine; what follows is for one instruction set only.
namespace ingot::kernels {

#define INGOT_VECTOR_BYTES 16
#define INGOT_TABLE block_ops_portable
#include "kernels/fused/block_ops.inc"

}  // namespace ingot::kernels
