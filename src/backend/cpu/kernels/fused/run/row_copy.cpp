#include "backend/cpu/kernels/fused/run/row_copy.h"

#include <cstring>

namespace ingot::kernels {

std::optional<RowCopy> row_copy(const Bound& b) {
  constexpr size_t longest = 4096;
  if (!b.copies) return std::nullopt;
  const Program& p = *b.program;
  const ProgramStore& store = p.stores[0];
  RowCopy out{RowWalk(b), static_cast<size_t>(b.domain.back()) * ir::size_of(p.memory[store.operand])};
  if (out.bytes > longest || !out.walk.add_load(b, store.reg) || !out.walk.add_store(b, store)) return std::nullopt;
  return out;
}

void RowCopy::run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const {
  RowWalk::At at(walk, operands, held, begin);
  for (int64_t row = begin; row < end; ++row, at.next()) std::memmove(at.pointer(1), at.pointer(0), bytes);
}

}  // namespace ingot::kernels
