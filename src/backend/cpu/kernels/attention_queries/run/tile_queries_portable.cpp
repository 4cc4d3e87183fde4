#include <utility>

#include "backend/cpu/kernels/attention_queries/run/tile_queries.h"
#include "backend/cpu/kernels/run/tile_end.h"
#include "backend/cpu/run/isa/portable.inc"
#include "ir/half.h"

namespace ingot::kernels {

#define INGOT_TABLE query_ops_portable
#include "backend/cpu/kernels/attention_queries/run/tile_queries.inc"

}  // namespace ingot::kernels
