#include <immintrin.h>

#include <utility>

#include "backend/cpu/kernels/attention_queries/run/tile_queries.h"
#include "backend/cpu/kernels/run/tile_end.h"
#include "backend/cpu/run/isa/avx2.inc"
#include "ir/half.h"

namespace ingot::kernels {

#define INGOT_TABLE query_ops_avx2
#include "backend/cpu/kernels/attention_queries/run/tile_queries.inc"

}  // namespace ingot::kernels
