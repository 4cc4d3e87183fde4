// What attention takes, estimated from sizes alone: by blocks of queries (attention), and query by query (attention_queries).
#pragma once
#include <cstdint>

#include "base/machine.h"
#include "ir/dtype.h"

namespace ingot::kernels::attention {

struct Sizes {
  int64_t batch, s, t, d, e;
  ir::DType type;
};
// Nanoseconds of one thread.
double cost_by_blocks(const Sizes&, const Machine&);
double cost_by_queries(const Sizes&, const Machine&);

}  // namespace ingot::kernels::attention
