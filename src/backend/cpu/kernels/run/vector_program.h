// Epilogues in registers, a few vectors of columns at a time, while a kernel's sums are in registers
// (vector_program.inc). For bodies that are not a SimpleEpilogue.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/run/tuning.h"
#include "ir/half.h"

namespace ingot::kernels {

struct VectorProgram {
  enum Kind : uint8_t { sum, number, load, map, store };
  struct Step {
    Kind kind;
    ir::Op op;               // of a map
    uint8_t in[3];           // step numbers
    uint8_t operand;         // of a load or a store: index in `operands`
    float number;
  };
  static constexpr size_t max_steps = run_tuning::max_end_steps, max_operands = run_tuning::max_end_operands;
  size_t count = 0, operand_count = 0;
  Step steps[max_steps];
  int operands[max_operands];  // of the body
  uint8_t result = 0;           // the step with the value of the first store; other stores are steps
};
// The program of a body bound to these sizes and strides. Each operand must be contiguous along columns, or one element for all of them. nullopt if some
// instruction has no vector form. The kernel does the body's first store.
std::optional<VectorProgram> vector_program(const Program&, const Bound&);

// Where a program's operand is for a kernel's tile.
struct VectorOperand {
  std::byte* data = nullptr;  // at the tile's first row and column
  int64_t row = 0;            // elements between rows; 0: the same row for all
  bool one = false;           // one element for all columns
  ir::DType type = ir::DType::f32;
};
struct VectorEnd {
  const VectorProgram* program = nullptr;
  VectorOperand operands[VectorProgram::max_operands];
  int64_t columns = 0;        // of the tile: nothing is read or stored past them

  // The same for a part of the tile that starts at this row and column.
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

// The operands at outer coordinates `at`; rows are the axis before the columns.
VectorEnd vector_end(const VectorProgram&, const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t columns);

}  // namespace ingot::kernels
