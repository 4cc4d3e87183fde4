// How a kernel's sums over windows end in registers, vector by vector of columns (sum_end.inc).
#pragma once
#include <cstdint>
#include <limits>

#include "backend/cpu/kernels/run/tile_end.h"

namespace ingot::kernels {

struct SumEnd {
  const float *scale = nullptr, *bias = nullptr;  // of all columns. A sum that began with its bias would be rounded to the bias's size each time
  const float* residual = nullptr;                // of the first output; behind the activation
  int64_t residual_step = 0;
  SimpleEpilogue::Activation activation = SimpleEpilogue::none;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  HardSwish hard_swish;
  float slope = 0;                                // of leaky
  const VectorEnd* program = nullptr;             // instead of all of the above
  int64_t row = 0, column = 0;                    // of the tile, for the program

  // `slope_operand`: where the epilogue's slope is, or null: it is a number.
  void set(const SimpleEpilogue& s, const void* slope_operand) {
    activation = s.activation;
    hard_swish = s.hard_swish_by;
    slope = slope_operand == nullptr ? s.slope : *static_cast<const float*>(slope_operand);
    if (activation == SimpleEpilogue::clamp) low = s.low, high = s.high;
    if (activation == SimpleEpilogue::relu) low = 0, activation = SimpleEpilogue::clamp;
  }
};

}  // namespace ingot::kernels
