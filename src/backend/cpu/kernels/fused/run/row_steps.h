// Short rows of a body of float32, in registers: four vectors of columns go through all steps before the next four do (row_steps.inc).
#pragma once
#include <cstddef>
#include <cstdint>

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
    normalise,      // (in0 - in1) * in2 * in3 + in4
    least,
    greatest // of `count` values
  };
  struct Step {
    Kind kind = nothing;
    uint8_t count = 0, in[5] = {};  // steps
    uint8_t operand = 0;            // of a load or a store
    bool one = false;               // a load of one element for all columns
    float number = 0;               // of a load: what there is outside
  };
  static constexpr size_t most = 64, most_operands = 24;
  size_t count = 0;
  Step steps[most];
};

// Where a row's operands are; null: outside.
struct RowPointers {
  std::byte* of[RowSteps::most_operands];
};
constexpr int rows_at_once = 4;

}  // namespace ingot::kernels
