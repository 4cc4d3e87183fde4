// Fused steps whose result is contiguous along another axis than an operand (a channels-last convolution result returned as [N, C, H, W]): tiles of such
// operands are transposed into scratch, where the body reads them. Read in place, each element would cost a cache line.
#pragma once
#include <span>

#include "backend/cpu/kernels/fused/run/cut.h"
#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

struct StageTile {
  // Along the second-to-last axis, along the last; floats between rows, with a cache line more than a power of two.
  static constexpr int64_t rows = fused_tuning::staged_tile_rows, columns = fused_tuning::staged_tile_columns, pitch = columns + fused_tuning::cache_line;
  static constexpr size_t bytes = rows * pitch * 4;
  static constexpr int max_operands = fused_tuning::max_staged_operands;  // of the step
};

// Short rows that are reduced across: a tile has this many of them.
struct TransposedTile {
  int64_t rows, pitch;  // pitch: floats between the places of a row
  size_t bytes;         // of an operand's tile
  explicit TransposedTile(const Bound& b);
};

// Finds the operands of short rows that are transposed.
void transpose_rows(Bound&, Program&);
// The same for operands in whose rows elements are looked up, as in a pooling with unequal windows. axes: of each instruction. Before the program is cut: it
// changes the offsets of elements.
void transpose_looked_up(Bound&, const Program&, std::span<const Axes> axes);
// True for a load of floats at one computed place of a contiguous axis that is not too long.
bool may_transpose_looked_up(const Bound&, const Program&, const ProgramInstruction& load);
// Transposes rows [begin, begin + n) along the last axis into the scratch, and the results back. `local`: the step's operands, changed to point there.
void stage_rows(const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t begin, int64_t n, std::byte* scratch, std::span<TensorRef> local);
void return_rows(const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t begin, int64_t n, const std::byte* scratch);

// True for a load that can be staged if blocks run along `axis`: f32, addressed by strides alone.
bool may_stage(const Bound&, const Program&, const ProgramInstruction& load, int axis);
// Finds the staged operands. The axis along which they are contiguous becomes the second-to-last.
void stage_operands(Bound&, Program&);
// Transposes the tile that starts at outer coordinates `at` and `column` into the scratch after the evaluator's. `local`:
// the step's operands, changed to point there.
void stage_tile(const Bound&, std::span<const TensorRef> operands, const int64_t* at, int64_t rows, int64_t column, int64_t columns, std::byte* scratch,
                std::span<TensorRef> local);

}  // namespace ingot::kernels
