// Turns a fused body into the CPU's byte code.
#pragma once
#include <cstddef>
#include <vector>

#include "backend/body.h"

namespace ingot::backend::cpu {

struct Emitted {
  std::vector<std::byte> code;
  std::vector<ir::Dim> sizes;  // the step's sizes, after those the anchor may have of its own
};

// Operands of the step: the body's, loads first, then stores (body.operands is in that order).
// Error (unsupported) when a primitive has no meaning for its dtype.
Emitted emit(const FusedBody&);

}  // namespace ingot::backend::cpu
