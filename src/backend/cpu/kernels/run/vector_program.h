// Bodies that run in registers, a few vectors of columns at a time, while a kernel's sums are there (vector_program.inc). For what SimpleEpilogue does not know.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"
#include "ir/half.h"

namespace ingot::kernels {

struct VectorProgram {
  enum Kind : uint8_t { sum, number, load, map, store };
  struct Step {
    Kind kind;
    ir::Op op;               // of a map
    uint8_t in[3];           // steps
    uint8_t operand;         // of a load or a store: which of `operands`
    float number;
  };
  static constexpr size_t most_steps = 48, most_operands = 12;
  size_t count = 0, operand_count = 0;
  Step steps[most_steps];
  int operands[most_operands];  // of the body
  uint8_t result = 0;           // the step whose value is the first store's; others are stored by steps
};
// The body bound to these sizes and strides: columns lie side by side in all its operands, or are one element. nullopt: something in it does not run in vectors.
// Its first store is left to the kernel.
std::optional<VectorProgram> vector_program(const Program&, const Bound&);

// Where a program's operands are for a kernel's tile.
struct VectorOperand {
  std::byte* data = nullptr;  // of the tile's first row and column
  int64_t row = 0;            // elements between rows; 0: the same for all
  bool one = false;           // one element for all columns
  ir::DType type = ir::DType::f32;
};
struct VectorEnd {
  const VectorProgram* program = nullptr;
  VectorOperand operands[VectorProgram::most_operands];
  int64_t columns = 0;        // of the tile: behind them nothing is read or stored

  // Of a part of the tile.
  VectorEnd from(int64_t row, int64_t column) const {
    VectorEnd out = *this;
    for (size_t k = 0; k < program->operand_count; ++k) {
      VectorOperand& o = out.operands[k];
      o.data += (row * o.row + (o.one ? 0 : column)) * static_cast<int64_t>(ir::size_of(o.type));
    }
    out.columns -= column;
    return out;
  }
};

// The operands at outer coordinates `at`, rows along the axis before the columns.
VectorEnd vector_end(const VectorProgram&, const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t columns);

}  // namespace ingot::kernels
