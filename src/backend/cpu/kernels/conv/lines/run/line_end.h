// The epilogues that line tiles have.
#pragma once
#include <limits>

#include "backend/cpu/kernels/conv/lines/run/lines.h"
#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

// Sets the problem's epilogue: a bias and bounds. False if the body is anything else.
inline bool set_line_end(const Program& body, LineProblem& to) {
  const SimpleEpilogue& s = body.simple;
  if (!s.valid || s.type != ir::DType::f32 || s.scale >= 0 || s.residual >= 0 || s.activates_last) return false;
  if (s.bias >= 0 && body.memory[static_cast<size_t>(s.bias)] != ir::DType::f32) return false;
  to.has_bias = s.bias >= 0;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  switch (s.activation) {
    case SimpleEpilogue::none: return true;
    case SimpleEpilogue::relu: to.low = 0, to.high = infinity; break;
    case SimpleEpilogue::clamp: to.low = s.low, to.high = s.high; break;
    default: return false;
  }
  to.clamps = true;
  return true;
}

}  // namespace ingot::kernels
