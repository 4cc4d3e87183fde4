// Compiles a fused body to the CPU's byte code.
#pragma once
#include <cstddef>
#include <vector>

#include "backend/body.h"

namespace ingot::backend::cpu {

struct Emitted {
  std::vector<std::byte> code;
  std::vector<ir::Dim> sizes;  // the body's sizes; an anchor's own sizes come before them
};

// Operands of the step are the body's: loads, then stores (body.operands is in that order). Error (unsupported) if a primitive is not defined for its dtype.
// in_order: sums take one element after another, whatever the strides.
Emitted emit(const FusedBody&, bool in_order = false);

}  // namespace ingot::backend::cpu
