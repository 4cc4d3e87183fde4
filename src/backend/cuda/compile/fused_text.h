// Turns a fused body into CUDA C++: one source with a few kernels, the first of which that fits the sizes at hand is run.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "backend/body.h"
#include "backend/cuda/compile/walk.h"

namespace ingot::backend::cuda {

// What is measured rather than known; 0: the emitter decides.
struct Tuning {
  int threads = 0;         // of a block
  int units = 0;           // of a thread
  int warp_row = 0;        // elements of the longest row that a warp takes
};

struct Emitted {
  std::string name;                  // kernels are name_0, name_1, ...; equal bodies have equal names
  std::string text;                  // behind prelude(); texts of several bodies may follow one another
  std::vector<std::byte> arguments;  // of the step: kernels::FusedCudaArgs
  std::vector<ir::Dim> sizes;        // of the step, in front of the domain's extents
};

// A pure function: same body and layouts, same text. Operands of the step: the body's, loads first, then stores. Error
// (unsupported) when a primitive has no meaning for its dtype or there are too many operands.
Emitted emit(const FusedBody&, const std::vector<StridedLayout>&, const Tuning& = {});

}  // namespace ingot::backend::cuda
