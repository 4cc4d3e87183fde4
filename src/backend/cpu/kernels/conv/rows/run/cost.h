// What a convolution takes by copied rows of windows, estimated from sizes alone.
#pragma once
#include "backend/cpu/kernels/conv/run/cost.h"
#include "ir/dtype.h"

namespace ingot::kernels::conv {

// Nanoseconds. `type`: of the image; its products are at the machine's rate for it.
double cost_of_copied_rows(const ConvSizes&, ir::DType type, const Cpu&);

}  // namespace ingot::kernels::conv
