#include "backend/cpu/kernels/fused/run/row_walk.h"

#include "base/error.h"

namespace ingot::kernels {

namespace {

[[noreturn]] void fail_outside(int64_t v, int64_t extent) { fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, extent); }

}  // namespace

RowWalk::RowWalk(const Bound& b) : extents(b.domain.begin(), b.domain.end() - 1), guards(extents.size()) {
  for (int64_t n : extents) rows *= n;
}

bool RowWalk::add_index(const Bound& b, uint32_t instruction, int64_t extent, int64_t step) {
  const ProgramInstruction& i = b.program->code[instruction];
  if (i.kind != Kind::load || !i.in.empty() || !i.lower.empty() || b.uniform[instruction] == 0 || b.program->memory[i.operand] != ir::DType::i64) return false;
  const std::vector<int64_t>& strides = b.strides[i.operand];
  indices.push_back({i.operand, {strides.begin(), strides.begin() + static_cast<int64_t>(extents.size())}, extent, step});
  return indices.size() <= max_indices;
}

bool RowWalk::add_load(const Bound& b, uint32_t instruction) {
  const Program& p = *b.program;
  const ProgramInstruction& load = p.code[instruction];
  const size_t last = extents.size();
  const auto size = static_cast<int64_t>(ir::size_of(p.memory[load.operand]));
  Operand o{load.operand, 0, {}, indices.size(), 0};
  for (size_t a = 0; a <= last; ++a) {
    int64_t stride = b.strides[load.operand][a] * size;
    if (limits(b, instruction, load, static_cast<int>(a))) {
      if (a == last) return false;
      const Guard guard{operands.size(), b.step[instruction][a], b.lower[instruction][a], b.dims[load.operand][a]};
      o.base -= guard.lower * stride;
      stride *= guard.step;
      guards[a].push_back(guard);
    }
    if (a < last) o.strides.push_back(stride);
  }
  for (uint32_t in : load.in) {
    const ProgramInstruction& place = p.code[in];
    if (place.kind != Kind::place) {  // an offset that another part computed, already checked
      if (!add_index(b, in, INT64_MAX, size)) return false;
      continue;
    }
    for (size_t k = 0; k < place.in.size(); ++k) {
      const size_t axis = last + 1 + place.axes[k];
      if (!add_index(b, place.in[k], b.dims[load.operand][axis], b.strides[load.operand][axis] * size)) return false;
    }
  }
  o.indices = indices.size() - o.first_index;
  operands.push_back(std::move(o));
  return last <= max_axes && operands.size() <= max_operands;
}

bool RowWalk::add_store(const Bound& b, const ProgramStore& store) {
  const auto size = static_cast<int64_t>(ir::size_of(b.program->memory[store.operand]));
  Operand o{store.operand, 0, {}, indices.size(), 0};
  for (size_t a = 0; a < extents.size(); ++a) o.strides.push_back(b.strides[store.operand][a] * size);
  operands.push_back(std::move(o));
  return extents.size() <= max_axes && operands.size() <= max_operands;
}

RowWalk::At::At(const RowWalk& walk, std::span<const TensorRef> operands, std::byte* const* held, int64_t row)
    : walk_(walk), operand_count_(walk.operands.size()), index_count_(walk.indices.size()) {
  auto data = [&](uint32_t operand) { return operand < operands.size() ? operands[operand].data : held[operand - operands.size()]; };
  for (size_t k = 0; k < walk.operands.size(); ++k) operands_[k] = data(walk.operands[k].operand) + walk.operands[k].base;
  for (size_t k = 0; k < walk.indices.size(); ++k) indices_[k] = reinterpret_cast<const int64_t*>(data(walk.indices[k].operand));
  for (size_t a = 0; a < walk.extents.size(); ++a) {
    for (size_t k = 0; k < operand_count_; ++k) steps_[a].operands[k] = walk.operands[k].strides[a];
    for (size_t k = 0; k < index_count_; ++k) steps_[a].indices[k] = walk.indices[k].strides[a];
  }
  for (size_t a = walk.extents.size(); a-- > 0; row /= walk.extents[a]) {
    at_[a] = row % walk.extents[a];
    move(a, at_[a]);
    find_outside(a);
  }
}

void RowWalk::At::find_outside(size_t axis) {
  uint32_t outside = 0;
  for (const Guard& g : walk_.guards[axis]) {
    const int64_t c = at_[axis] * g.step - g.lower;
    outside |= static_cast<uint32_t>(c < 0 || c >= g.extent) << g.operand;
  }
  outside_[axis] = outside;
  excluded_ = 0;
  for (size_t a = 0; a < walk_.extents.size(); ++a) excluded_ |= outside_[a];
}

void RowWalk::At::move(size_t axis, int64_t by) {
  const Steps& steps = steps_[axis];
  for (size_t k = 0; k < operand_count_; ++k) operands_[k] += by * steps.operands[k];
  for (size_t k = 0; k < index_count_; ++k) indices_[k] += by * steps.indices[k];
}

void RowWalk::At::next(int64_t rows) {
  for (size_t a = walk_.extents.size(); a-- > 0; rows = 1) {
    move(a, rows);
    const bool last = (at_[a] += rows) == walk_.extents[a];
    if (last) {
      move(a, -at_[a]);
      at_[a] = 0;
    }
    if (!walk_.guards[a].empty()) find_outside(a);
    if (!last) return;
  }
}

void RowWalk::At::find_offsets(size_t operand, int64_t* offsets, int64_t rows) const {
  const Operand& o = walk_.operands[operand];
  const size_t axis = walk_.extents.size() - 1;
  const int64_t step = walk_.extents.empty() ? 0 : steps_[axis].operands[operand];
  for (int64_t r = 0; r < rows; ++r) offsets[r] = r * step;
  for (size_t k = o.first_index; k < o.first_index + o.indices; ++k) {
    const Index& index = walk_.indices[k];
    const int64_t along = walk_.extents.empty() ? 0 : steps_[axis].indices[k];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t v = indices_[k][r * along];
      if (index.extent != INT64_MAX && (v < 0 || v >= index.extent)) fail_outside(v, index.extent);
      offsets[r] += v * index.step;
    }
  }
}

std::byte* RowWalk::At::pointer(size_t operand) const {
  if ((excluded_ >> operand & 1) != 0) return nullptr;
  const Operand& o = walk_.operands[operand];
  std::byte* p = operands_[operand];
  for (size_t k = o.first_index; k < o.first_index + o.indices; ++k) {
    const int64_t v = *indices_[k], extent = walk_.indices[k].extent;
    if (extent != INT64_MAX && (v < 0 || v >= extent)) fail_outside(v, extent);
    p += v * walk_.indices[k].step;
  }
  return p;
}

}  // namespace ingot::kernels
