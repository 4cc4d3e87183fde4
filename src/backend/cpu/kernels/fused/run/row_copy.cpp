#include "backend/cpu/kernels/fused/run/row_copy.h"

#include <algorithm>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

std::optional<RowCopy> row_copy(const Bound& b) {
  if (!b.copies) return std::nullopt;
  const Program& p = *b.program;
  const ProgramStore& store = p.stores[0];
  const size_t element = ir::size_of(p.memory[store.operand]);
  RowCopy out{RowWalk(b), static_cast<size_t>(b.domain.back()) * element, element};
  if (out.bytes > fused_tuning::max_inline_copy || !out.walk.add_load(b, store.reg) || !out.walk.add_store(b, store)) return std::nullopt;
  return out;
}

void RowCopy::run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const {
  constexpr int64_t capacity = fused_tuning::copied_rows;
  const BlockOps& ops = block_ops();
  const RowSegment whole{.to = 0, .from = 0, .n = static_cast<int64_t>(bytes / element), .step = 1};
  const int64_t to_step = walk.extents.empty() ? 0 : walk.operands[1].strides.back();
  RowWalk::At at(walk, operands, held, begin);
  int64_t offsets[capacity];
  for (int64_t row = begin; row < end;) {
    const int64_t rows = std::min({capacity, at.rows_left(), end - row});
    at.find_offsets(0, offsets, rows);
    ops.copy_rows(element, 0, &whole, 1, {at.start(1), to_step, at.start(0), 0, offsets, rows, true});
    at.next(rows);
    row += rows;
  }
}

}  // namespace ingot::kernels
