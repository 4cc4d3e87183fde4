// Which products cuBLASLt can do, with how much of the body behind them, and which a kernel that reads its left operand through a map.
#pragma once
#include "backend/emitter.h"

namespace ingot::backend::cuda {

// The step of a product, or what stands in the way. A pure function. `tf32`: see EmitterSettings.
ProductAnswer emit_product(const Product&, const FusedBody&, const std::vector<Layout>&, bool tf32 = false);

}  // namespace ingot::backend::cuda
