// Fused steps whose results lie along another axis than what they read (the result of a convolution, channels last, given back as [N, C, H, W]): tiles of such
// operands are transposed into scratch, and the body runs on them there. Read element by element each would be a cache line of its own.
#pragma once
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

struct StageTile {
  static constexpr int64_t rows = 16, columns = 256, pitch = columns + 16;  // of the axis before the last, of the last; floats between rows
  static constexpr size_t bytes = rows * pitch * 4;
  static constexpr int most_operands = 32;  // of the step
};

// True for a load that could be staged if blocks ran along `axis`: of f32, by strides alone.
bool may_stage(const Bound&, const Program&, const ProgramInstruction& load, int axis);
// Finds the operands that are staged; the axis along which they lie becomes the last but one.
void stage_operands(Bound&, Program&);
// Brings the tile that begins at outer coordinates `at` and `column` into scratch behind the evaluator's. `local`: the step's operands, which then lead there.
void bring_tile(const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t rows, int64_t column, int64_t columns, std::byte* scratch,
                std::span<TensorRef> local);

}  // namespace ingot::kernels
