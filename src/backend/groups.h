// Weights of 4 bits in groups, as every backend that packs them sees them.
#pragma once
#include "backend/site.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::backend {

// The groups of a B whose numbers, scales and zeros can be packed; of size 0: it has none that are read.
kernels::Groups groups_of(const Gemm&);

}  // namespace ingot::backend
