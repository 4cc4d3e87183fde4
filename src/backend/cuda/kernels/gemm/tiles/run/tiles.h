// Hopper's tiles for several GEMMs at once.
#pragma once
#include <span>

#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

// Nanoseconds on an H200, without the launch, of the tiles and the parts of K that the model likes best.
double work_of(const GemmSizes&);

// What independent GEMMs choose that are launched together: tiles of one size side by side, each the best for it one after another, or each as on its share of the
// multiprocessors. Empty if one of them has no large tiles.
WantedChoices gemm_tiles_choices(std::span<const Call>, const CudaMachine&);

}  // namespace ingot::kernels
