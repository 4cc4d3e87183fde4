// Short rows of a float32 body in registers: four vectors of columns go through all steps before the next four (row_steps.inc).
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

struct RowSteps {
  enum Kind : uint8_t {
    nothing,
    number,
    load,
    store,
    add,
    sub,
    mul,
    div,
    min,
    max,
    neg,
    abs,
    relu,
    multiply_add,   // in0 * in1 + in2
    relu_add,       // relu(in0 + in1) * in2 + in3
    between,        // min(in2, max(in1, in0))
    cube,           // in0 * in0 * in0
    normalise,      // (in0 - in1) * in2 * in3 + in4
    least,
    greatest // the maximum of `count` values
  };
  struct Step {
    Kind kind = nothing;
    uint8_t count = 0, in[5] = {};  // operands: step numbers
    uint8_t operand = 0;            // of a load or a store
    bool one = false;               // a load of one element for all columns
    float number = 0;               // of a load: the fill value
  };
  static constexpr size_t max_steps = fused_tuning::max_row_steps, max_operands = fused_tuning::max_row_operands;
  static constexpr int rows_at_once = fused_tuning::rows_at_once;
  size_t count = 0;
  Step steps[max_steps];
};

// Addresses of a row's operands; null: outside the operand.
struct RowPointers {
  std::byte* of[RowSteps::max_operands];
};

}  // namespace ingot::kernels
