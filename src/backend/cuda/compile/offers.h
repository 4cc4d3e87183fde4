// CUDA's offers; each kernel's are in its folder.
#pragma once
#include "backend/offer.h"
#include "backend/settings.h"

namespace ingot::backend::cuda {

// Each adds its kernel's offers if the site is of its kind.
#define X(name) void name##_offers(const Site&, const Target&, const Settings&, Offers&);
#include "backend/cuda/run/kernels.def"
#undef X

}  // namespace ingot::backend::cuda
