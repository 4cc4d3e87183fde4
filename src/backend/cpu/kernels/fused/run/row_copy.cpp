#include "backend/cpu/kernels/fused/run/row_copy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ingot::kernels {

namespace {

constexpr size_t longest = 4096, most_axes = 16, most_indices = 8;

// Walks rows in order: where one is read and written, and where its indices are.
struct Walk {
  int64_t at[most_axes] = {};
  int64_t from = 0, to = 0, index[most_indices] = {};

  void move(const RowCopy& c, size_t axis, int64_t by) {
    from += by * c.axes[axis].from;
    to += by * c.axes[axis].to;
    for (size_t k = 0; k < c.indices.size(); ++k) index[k] += by * c.indices[k].strides[axis];
  }
  void begin(const RowCopy& c, int64_t row) {
    for (size_t a = c.axes.size(); a-- > 0; row /= c.axes[a].extent) {
      at[a] = row % c.axes[a].extent;
      move(c, a, at[a]);
    }
  }
  void next(const RowCopy& c) {
    for (size_t a = c.axes.size(); a-- > 0;) {
      move(c, a, 1);
      if (++at[a] < c.axes[a].extent) return;
      move(c, a, -at[a]);
      at[a] = 0;
    }
  }
};

}  // namespace

std::optional<RowCopy> row_copy(const Bound& b) {
  const Program& p = *b.program;
  if (!b.copies || b.domain.size() > most_axes) return std::nullopt;
  const ProgramStore& store = p.stores[0];
  const ProgramInstruction& load = p.code[store.reg];
  const auto last = b.domain.size() - 1;
  const auto size = static_cast<int64_t>(ir::size_of(p.memory[load.operand]));
  RowCopy out;
  out.load = load.operand;
  out.store = store.operand;
  out.bytes = static_cast<size_t>(b.domain[last] * size);
  if (out.bytes > longest) return std::nullopt;
  for (size_t a = 0; a < last; ++a) {
    out.axes.push_back({b.domain[a], b.strides[load.operand][a] * size, b.strides[store.operand][a] * size});
    out.rows *= b.domain[a];
  }
  // An index in memory; of places that another part holds, which are checked already, so many elements away.
  auto add = [&](uint32_t reg, int64_t extent, int64_t step) {
    const ProgramInstruction& i = p.code[reg];
    if (i.kind != Kind::load || !i.in.empty() || !i.lower.empty() || p.memory[i.operand] != ir::DType::i64) return false;
    const std::vector<int64_t>& strides = b.strides[i.operand];
    out.indices.push_back({i.operand, {strides.begin(), strides.begin() + static_cast<int64_t>(last)}, extent, step * size});
    return true;
  };
  for (uint32_t in : load.in) {
    const ProgramInstruction& place = p.code[in];
    if (place.kind != Kind::place) {
      if (!add(in, INT64_MAX, 1)) return std::nullopt;
      continue;
    }
    for (size_t k = 0; k < place.in.size(); ++k) {
      const size_t axis = last + 1 + place.axes[k];
      if (!add(place.in[k], b.dims[load.operand][axis], b.strides[load.operand][axis])) return std::nullopt;
    }
  }
  return out.indices.size() <= most_indices ? std::optional(std::move(out)) : std::nullopt;
}

void RowCopy::run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const {
  auto data = [&](uint32_t operand) { return operand < operands.size() ? operands[operand].data : held[operand - operands.size()]; };
  const std::byte* const from = data(load);
  std::byte* const to = data(store);
  const int64_t* index[most_indices];
  for (size_t k = 0; k < indices.size(); ++k) index[k] = reinterpret_cast<const int64_t*>(data(indices[k].operand));
  Walk w;
  w.begin(*this, begin);
  for (int64_t row = begin; row < end; ++row, w.next(*this)) {
    int64_t at = w.from;
    for (size_t k = 0; k < indices.size(); ++k) {
      const int64_t v = index[k][w.index[k]], extent = indices[k].extent;
      if (extent != INT64_MAX && (v < 0 || v >= extent)) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, extent);
      at += v * indices[k].step;
    }
    std::memmove(to + w.to, from + at, bytes);
  }
}

}  // namespace ingot::kernels
