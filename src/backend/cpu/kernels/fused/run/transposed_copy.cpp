#include "backend/cpu/kernels/fused/run/transposed_copy.h"

#include <algorithm>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

int64_t blocks(int64_t rows) { return (rows + fused_tuning::transposed_rows - 1) / fused_tuning::transposed_rows; }

}  // namespace

std::optional<TransposedCopy> transposed_copy(const Bound& b) {
  const Program& p = *b.program;
  if (p.code.size() != 1 || p.stores.size() != 1) return std::nullopt;
  const ProgramInstruction& load = p.code[0];
  TransposedCopy out{{}, {}, {}, load.operand, p.stores[0].operand};
  if (load.kind != Kind::load || !load.in.empty() || !load.lower.empty()) return std::nullopt;
  if (p.memory[out.load] != ir::DType::f32 || p.memory[out.store] != ir::DType::f32) return std::nullopt;
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
  out.units *= blocks(out.row.extent);
  return out;
}

void TransposedCopy::run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const {
  const auto* from = reinterpret_cast<const float*>(operands[load].data);
  auto* to = reinterpret_cast<float*>(operands[store].data);
  const BlockOps& ops = block_ops();
  const int64_t of_rows = blocks(row.extent);
  for (int64_t u = begin; u < end; ++u) {
    int64_t rest = u / of_rows, source = 0, target = 0;
    for (size_t a = outer.size(); a-- > 0; rest /= outer[a].extent) {
      const int64_t at = rest % outer[a].extent;
      source += at * outer[a].from;
      target += at * outer[a].to;
    }
    const int64_t r = u % of_rows * fused_tuning::transposed_rows, rows = std::min(fused_tuning::transposed_rows, row.extent - r);
    for (int64_t c = 0; c < column.extent; c += fused_tuning::transposed_columns) {
      ops.transpose(to + target + r + c * column.to, column.to, from + source + r * row.from + c, row.from, rows, std::min(fused_tuning::transposed_columns, column.extent - c));
    }
  }
}

}  // namespace ingot::kernels
