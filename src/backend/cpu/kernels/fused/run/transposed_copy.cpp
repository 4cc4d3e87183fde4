#include "backend/cpu/kernels/fused/run/transposed_copy.h"

#include <algorithm>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

// Rows of a block: whole cache lines of the destination.
int64_t rows_of(size_t element) { return std::max(fused_tuning::transposed_rows, 64 / static_cast<int64_t>(element)); }

}  // namespace

std::optional<TransposedCopy> transposed_copy(const Bound& b) {
  const Program& p = *b.program;
  if (p.code.size() != 1 || p.stores.size() != 1) return std::nullopt;
  const ProgramInstruction& load = p.code[0];
  TransposedCopy out{{}, {}, {}, load.operand, p.stores[0].operand, 0};
  if (load.kind != Kind::load || !load.in.empty() || !load.lower.empty()) return std::nullopt;
  const ir::DType type = p.memory[out.store];
  if (p.memory[out.load] != type) return std::nullopt;
  out.element = ir::size_of(type);
  int row = -1, column = -1;
  for (size_t a = 0; a < b.domain.size(); ++a) {
    if (b.domain[a] == 0) return std::nullopt;
    if (b.domain[a] == 1) continue;
    if (b.strides[out.store][a] == 1) row = static_cast<int>(a);
    if (b.strides[out.load][a] == 1) column = static_cast<int>(a);
  }
  if (row < 0 || column < 0 || row == column) return std::nullopt;
  for (size_t a = 0; a < b.domain.size(); ++a) {
    const TransposedCopy::Axis axis{b.domain[a], b.strides[out.load][a], b.strides[out.store][a]};
    if (static_cast<int>(a) == row) {
      out.row = axis;
    } else if (static_cast<int>(a) == column) {
      out.column = axis;
    } else if (axis.extent > 1) {
      out.units *= axis.extent;
      TransposedCopy::Axis* before = out.outer.empty() ? nullptr : &out.outer.back();
      if (before != nullptr && before->from == axis.from * axis.extent && before->to == axis.to * axis.extent) {
        *before = {before->extent * axis.extent, axis.from, axis.to};
      } else {
        out.outer.push_back(axis);
      }
    }
  }
  out.units *= out.blocks();
  return out;
}

int64_t TransposedCopy::blocks() const { return (row.extent + rows_of(element) - 1) / rows_of(element); }

void TransposedCopy::run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const {
  const auto* from = operands[load].data;
  auto* to = operands[store].data;
  const BlockOps& ops = block_ops();
  const auto size = static_cast<int64_t>(element);
  const int64_t of_rows = blocks(), rows_at_once = rows_of(element);
  for (int64_t u = begin; u < end; ++u) {
    int64_t rest = u / of_rows, source = 0, target = 0;
    for (size_t a = outer.size(); a-- > 0; rest /= outer[a].extent) {
      const int64_t at = rest % outer[a].extent;
      source += at * outer[a].from;
      target += at * outer[a].to;
    }
    const int64_t r = u % of_rows * rows_at_once, rows = std::min(rows_at_once, row.extent - r);
    for (int64_t c = 0; c < column.extent; c += fused_tuning::transposed_columns) {
      const int64_t columns = std::min(fused_tuning::transposed_columns, column.extent - c);
      ops.transpose_elements(element, to + (target + r + c * column.to) * size, column.to, from + (source + r * row.from + c) * size, row.from, rows, columns);
    }
  }
}

}  // namespace ingot::kernels
