// Prints a fused body as CUDA C++: one text with a few kernels. The launcher takes the first that fits the sizes.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cuda/compile/printed_kernels.h"
#include "backend/cuda/compile/walk.h"

namespace ingot::backend::cuda {

// Overrides for measurements; 0: the emitter decides.
struct Tuning {
  int threads = 0;         // per block
  int units = 0;           // per thread
  int warp_row = 0;        // longest row, in elements, that one warp computes
};

struct Emitted {
  CodeUnit code;                     // kernels are name_0, name_1, ...; equal bodies have equal names
  std::vector<std::byte> arguments;  // of the step: kernels::FusedCudaArgs
  std::vector<ir::Dim> sizes;        // of the step; the domain's extents follow
};

// A pure function: equal bodies and layouts give equal text. Operands of the step are the body's: loads, then stores. Error (unsupported) if a primitive is
// not defined for its dtype or there are too many operands. `aligned`: see Site::aligned; the text has no kernel that no size and address can want. `of` rows: for a
// body that reduces; the text is the same for all numbers of rows and strides between them, and spare blocks end at once.
Emitted emit(const FusedBody&, const std::vector<StridedLayout>&, const Tuning& = {}, const std::vector<bool>& aligned = {}, ParametersOf of = ParametersOf::step);

}  // namespace ingot::backend::cuda
