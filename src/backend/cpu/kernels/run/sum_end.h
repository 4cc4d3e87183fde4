// The epilogue of convolutions' sums in registers, one vector of columns at a time (sum_end.inc).
#pragma once
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels/run/tile_end.h"

namespace ingot::kernels {

struct SumEnd {
  const float *scale = nullptr, *bias = nullptr;  // per column. A sum that started with its bias would be rounded at the bias's magnitude in each step
  const float* residual = nullptr;                // address for the first output; added after the activation
  int64_t residual_step = 0;
  SimpleEpilogue::Activation activation = SimpleEpilogue::none;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  HardSwish hard_swish;
  float slope = 0;                                // of leaky
  const VectorEnd* program = nullptr;             // if set, replaces all of the above
  int64_t row = 0, column = 0;                    // of the tile, for the program

  // True if no more follows the sums than scale, bias and bounds.
  bool is_short() const { return residual == nullptr && program == nullptr && (activation == SimpleEpilogue::none || activation == SimpleEpilogue::clamp); }
  // `slope_operand`: the address of the epilogue's slope, or null if it is a constant.
  void set(const SimpleEpilogue& s, const void* slope_operand) {
    activation = s.activation;
    hard_swish = s.hard_swish_by;
    slope = slope_operand == nullptr ? s.slope : *static_cast<const float*>(slope_operand);
    if (activation == SimpleEpilogue::clamp) low = s.low, high = s.high;
    if (activation == SimpleEpilogue::relu) low = 0, activation = SimpleEpilogue::clamp;
  }
};

}  // namespace ingot::kernels
