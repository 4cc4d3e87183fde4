#include "backend/cpu/kernels/fused/run/stage.h"

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

// The axis along which the operand is contiguous, if it is not `axis`; else -1.
int axis_along(const Bound& b, size_t operand, int axis) {
  const std::vector<int64_t>& strides = b.strides[operand];
  if (std::abs(strides[static_cast<size_t>(axis)]) < fused_tuning::staged_stride || b.domain[static_cast<size_t>(axis)] < fused_tuning::staged_columns) return -1;
  for (int a = 0; a < static_cast<int>(b.domain.size()); ++a) {
    if (a != axis && strides[static_cast<size_t>(a)] == 1 && b.domain[static_cast<size_t>(a)] >= fused_tuning::staged_rows) return a;
  }
  return -1;
}

bool is_plain(const Program& p, const ProgramInstruction& i) {
  return i.kind == Kind::load && i.in.empty() && i.lower.empty() && i.operand < p.operands && p.memory[i.operand] == ir::DType::f32;
}

}  // namespace

bool may_stage(const Bound& b, const Program& p, const ProgramInstruction& load, int axis) {
  return p.code.size() > 1 && !p.has_reductions && is_plain(p, load) && axis_along(b, load.operand, axis) >= 0;
}

void stage_operands(Bound& b, Program& p) {
  const int last = p.domain_rank - 1;
  const bool reduces = p.has_reductions || b.across != 0;
  if (reduces || p.row_rank != 1 || last < 1 || p.code.size() < 2 || p.operands > StageTile::max_operands) return;
  if (std::find(b.domain.begin(), b.domain.end(), 0) != b.domain.end()) return;
  std::vector<int> along(static_cast<size_t>(p.operands), -1);
  std::vector<uint8_t> stays(static_cast<size_t>(p.operands), 0);
  for (const ProgramStore& s : p.stores) {
    if (s.operand < p.operands) stays[s.operand] = 1;
  }
  for (const ProgramInstruction& i : p.code) {
    if ((i.kind != Kind::load && i.kind != Kind::place) || i.operand >= p.operands) continue;
    if (!is_plain(p, i)) stays[i.operand] = 1;
    if (i.kind == Kind::load) along[i.operand] = axis_along(b, i.operand, last);
  }
  int axis = -1;  // the first staged operand's; operands contiguous along another axis are read in place
  for (size_t k = 0; k < along.size() && axis < 0; ++k) {
    if (stays[k] == 0) axis = along[k];
  }
  if (axis < 0) return;
  std::vector<size_t> order;
  for (int a = 0; a < last; ++a) {
    if (a != axis) order.push_back(static_cast<size_t>(a));
  }
  order.push_back(static_cast<size_t>(axis));
  order.push_back(static_cast<size_t>(last));
  reorder_axes(b, p, order);
  for (size_t k = 0; k < along.size(); ++k) {
    if (stays[k] != 0 || along[k] != axis) continue;
    b.staged.push_back({static_cast<uint16_t>(k), b.strides[k]});
    std::fill(b.strides[k].begin(), b.strides[k].end(), 0);
    b.strides[k][static_cast<size_t>(last)] = 1;
    b.strides[k][static_cast<size_t>(last) - 1] = StageTile::pitch;
  }
}

TransposedTile::TransposedTile(const Bound& b) {
  const int64_t places = std::max<int64_t>(b.transposed_places, 1);
  rows = std::clamp<int64_t>(fused_tuning::staged_elements / places / 16 * 16, 16, fused_tuning::block_elements);
  pitch = rows + 16;
  bytes = static_cast<size_t>(places * pitch) * sizeof(float);
}

void transpose_rows(Bound& b, Program& p) {
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  if (b.across != 1 || p.row_rank != 1 || p.operands > StageTile::max_operands || b.places > fused_tuning::longest_transposed || b.domain[last] < fused_tuning::staged_columns)
    return;
  std::vector<uint8_t> written(static_cast<size_t>(p.operands), 0), stays = written;
  for (const ProgramStore& s : p.stores) {
    if (s.operand < p.operands) written[s.operand] = 1;
  }
  for (const ProgramInstruction& i : p.code) {
    if ((i.kind == Kind::load || i.kind == Kind::place) && i.operand < p.operands && !is_plain(p, i)) stays[i.operand] = 1;
  }
  // A tile that holds looked-up rows has their size; other rows are read in place.
  if (b.transposed.empty()) b.transposed_places = b.places;
  for (bool stores : {false, true}) {
    for (size_t k = 0; k < written.size() && b.transposed_places == b.places; ++k) {
      std::vector<int64_t>& strides = b.strides[k];
      const bool is_strided =
          strides.size() > last && strides[last - 1] == 1 && strides[last] >= fused_tuning::staged_stride && b.dims[k][last - 1] == b.places && p.memory[k] == ir::DType::f32;
      if ((written[k] != 0) != stores || stays[k] != 0 || !is_strided) continue;
      b.transposed.push_back({static_cast<uint16_t>(k), strides});
      std::fill(strides.begin(), strides.end(), 0);
      strides[last] = 1;
      strides[last - 1] = TransposedTile(b).pitch;
    }
    if (!stores) b.transposed_loads = b.transposed.size();
  }
}

bool may_transpose_looked_up(const Bound& b, const Program& p, const ProgramInstruction& i) {
  const auto rank = static_cast<size_t>(p.domain_rank);
  const bool looks_up = i.kind == Kind::load && i.in.size() == 1 && i.lower.empty() && i.operand < p.operands;
  if (!looks_up || p.memory[i.operand] != ir::DType::f32 || b.strides[i.operand].size() != rank + 1) return false;
  return b.strides[i.operand][rank] == 1 && b.dims[i.operand][rank] > 1 && b.dims[i.operand][rank] <= fused_tuning::longest_looked_up;
}

void transpose_looked_up(Bound& b, const Program& p, std::span<const Axes> axes) {
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  if (b.across == 0 || p.operands > StageTile::max_operands || b.domain[last] < fused_tuning::staged_columns) return;
  std::vector<int> loads(static_cast<size_t>(p.operands), 0);
  for (const ProgramInstruction& i : p.code) {
    if (i.kind == Kind::load) ++loads[i.operand];
  }
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (!may_transpose_looked_up(b, p, i) || loads[i.operand] != 1 || elements_of(b, axes[k]) != elements_of(b, all_axes)) continue;
    std::vector<int64_t>& strides = b.strides[i.operand];
    bool one_row = strides[last] >= fused_tuning::staged_stride;  // for all elements of the reduction
    for (size_t a = last - static_cast<size_t>(b.across); a < last; ++a) one_row = one_row && strides[a] == 0;
    if (!one_row) continue;
    b.transposed.push_back({i.operand, strides});
    b.transposed_places = std::max(b.transposed_places, b.dims[i.operand].back());
  }
  for (const Bound::Staged& s : b.transposed) {
    std::vector<int64_t>& strides = b.strides[s.operand];
    std::fill(strides.begin(), strides.end(), 0);
    strides[last] = 1;
    strides.back() = TransposedTile(b).pitch;
  }
  b.transposed_loads = b.transposed.size();
}

namespace {

// The memory of the rows from `begin` on.
float* rows_at(const Bound& b, const Bound::Staged& s, std::span<const TensorRef> operands, const int64_t* at, int64_t begin) {
  const size_t last = b.domain.size() - 1;
  int64_t from = begin * s.strides[last];
  for (size_t a = 0; a + 1 < last; ++a) from += at[a] * s.strides[a];
  return reinterpret_cast<float*>(operands[s.operand].data) + from;
}

// Elements of an operand's row.
int64_t places_of(const Bound& b, const Bound::Staged& s) { return s.strides.size() > b.domain.size() ? b.dims[s.operand].back() : b.places; }

}  // namespace

void stage_rows(const Bound& b, std::span<const TensorRef> operands, const int64_t* at, int64_t begin, int64_t n, std::byte* scratch, std::span<TensorRef> local) {
  const TransposedTile tile(b);
  for (size_t k = 0; k < b.transposed.size(); ++k, scratch += tile.bytes) {
    const Bound::Staged& s = b.transposed[k];
    if (k < b.transposed_loads)
      block_ops().transpose(reinterpret_cast<float*>(scratch), tile.pitch, rows_at(b, s, operands, at, begin), s.strides[b.domain.size() - 1], n, places_of(b, s));
    local[s.operand].data = scratch - begin * static_cast<int64_t>(sizeof(float));
  }
}

void return_rows(const Bound& b, std::span<const TensorRef> operands, const int64_t* at, int64_t begin, int64_t n, const std::byte* scratch) {
  const TransposedTile tile(b);
  for (size_t k = b.transposed_loads; k < b.transposed.size(); ++k) {
    const Bound::Staged& s = b.transposed[k];
    block_ops().transpose(rows_at(b, s, operands, at, begin), s.strides.back(), reinterpret_cast<const float*>(scratch + k * tile.bytes), tile.pitch, b.places, n);
  }
}

void stage_tile(const Bound& b, std::span<const TensorRef> operands, const int64_t* at, int64_t rows, int64_t column, int64_t columns, std::byte* scratch,
                std::span<TensorRef> local) {
  const size_t last = b.domain.size() - 1;
  for (const Bound::Staged& s : b.staged) {
    int64_t from = column * s.strides[last];
    for (size_t a = 0; a < last; ++a) from += at[a] * s.strides[a];
    const auto* data = reinterpret_cast<const float*>(operands[s.operand].data) + from;
    block_ops().transpose(reinterpret_cast<float*>(scratch), StageTile::pitch, data, s.strides[last], columns, rows);
    // Points to where the domain's first element would be, as for operands in memory.
    local[s.operand].data = scratch - (at[last - 1] * StageTile::pitch + column) * static_cast<int64_t>(sizeof(float));
    scratch += StageTile::bytes;
  }
}

}  // namespace ingot::kernels
