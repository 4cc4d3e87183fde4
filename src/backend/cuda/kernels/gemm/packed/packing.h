// Packs weights for "gemm_packed" in primitives, which prepare runs on any device.
#pragma once
#include <span>

#include "backend/cuda/kernels/gemm/packed/run/packed_args.h"
#include "backend/site.h"

namespace ingot::backend::cuda {

// The packing of a GEMM's B that is not packed yet: constant numbers of 4 bits in groups, or of 8 with a scale for each column. nullopt: it has another form, or a row does not fit shared memory.
std::optional<kernels::PackedB> packing_of(const Gemm&, bool hopper);
Packing packing_for(const kernels::PackedB&);

}  // namespace ingot::backend::cuda
