#include "backend/cpu/kernels/matmul/run/rows.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/fused/run/program.h"
#include "base/error.h"
#include "kernels/run/elements.h"

namespace ingot::kernels {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// First layers have runs of a few elements, too short for a call: copies two overlapping segments of a fixed size.
template <size_t segment>
void copy_ends(float* to, const float* from, int64_t count) {
  std::byte head[segment * 4], tail[segment * 4];
  std::memcpy(head, from, segment * 4);
  std::memcpy(tail, from + count - static_cast<int64_t>(segment), segment * 4);
  std::memcpy(to, head, segment * 4);
  std::memcpy(to + count - static_cast<int64_t>(segment), tail, segment * 4);
}

void copy_floats(float* to, const float* from, int64_t count) {
  if (count > 16) {
    std::memcpy(to, from, static_cast<size_t>(count) * 4);
  } else if (count >= 8) {
    copy_ends<8>(to, from, count);
  } else if (count >= 4) {
    copy_ends<4>(to, from, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

}  // namespace

MappedRows::MappedRows(const GemmMap& map, int batch_rank, const TensorRef& a, std::span<const int64_t> sizes, int64_t m, int64_t k) {
  static_assert(GemmMap::max_rank <= IndexMap::max_axes);
  auto refuse = [](const char* what) { fail(Code::format, "matmul: {}", what); };
  if (sizes.size() != static_cast<size_t>(batch_rank + map.m_rank + map.k_rank + map.rank) || a.rank != map.rank)
    refuse("the operand read through a map does not have the map's rank");
  IndexMap resolved = resolve_index_map("matmul", map.steps, a, sizes);
  std::vector<Index>& all = resolved.indices;
  int64_t lengths[2] = {1, 1};
  for (size_t i = static_cast<size_t>(batch_rank); i < all.size(); ++i) {
    int64_t& length = lengths[i >= static_cast<size_t>(batch_rank + map.m_rank)];
    if (all[i].extent > 0 && length > max_map_extent / all[i].extent) refuse("the map's extents are impossible");
    length *= all[i].extent;
  }
  if (lengths[0] != m || lengths[1] != k) refuse("the map's extents are not those of the product");
  start_ = resolved.start;
  axes_ = resolved.axes;
  std::copy(resolved.size, resolved.size + axes_, size_);
  const auto first_m = all.begin() + batch_rank, first_k = first_m + map.m_rank;
  batch_.assign(all.begin(), first_m);
  m_ = collapsed({first_m, first_k}, axes_);
  k_ = collapsed({first_k, all.end()}, axes_);
  for (int b = 0; b < axes_; ++b) {
    for (const Index& i : k_) reach_[b] += i.along[b] * std::max<int64_t>(i.extent - 1, 0);
  }
}

void MappedRows::copy(const TensorRef& a, const int64_t* at, int64_t row, int64_t k0, int64_t k1, float* to) const {
  Position first = start_;
  for (size_t d = 0; d < batch_.size(); ++d) first.move(batch_[d], at[d], axes_);
  for (size_t i = m_.size(); i-- > 0;) {
    first.move(m_[i], row % m_[i].extent, axes_);
    row /= m_[i].extent;
  }
  bool inside = true;  // the whole row
  for (int b = 0; b < axes_; ++b) inside = inside && first.along[b] >= 0 && first.along[b] + reach_[b] < size_[b];
  const Index& run = k_.back();
  const auto size = static_cast<int64_t>(ir::size_of(a.dtype));
  const bool floats = a.dtype == ir::DType::f32, straight = floats && run.step == 1, is_short = floats && run.extent <= 16;
  const BlockOps& block = block_ops();
  auto take = [&](uint64_t offset, int64_t count, float* out) {
    const std::byte* from = a.data + static_cast<int64_t>(offset) * size;
    if (straight) {
      copy_floats(out, reinterpret_cast<const float*>(from), count);
    } else if (is_short) {
      for (int64_t i = 0; i < count; ++i) out[i] = reinterpret_cast<const float*>(from)[i * static_cast<int64_t>(run.step)];
    } else {
      block.load(a.dtype, out, from, static_cast<int64_t>(run.step), count);
    }
  };
  // The start of the run. `digits` are the indices before the last one; they advance from run to run without a division.
  int64_t digits[IndexMap::max_axes], begin = k0 % run.extent, rest = k0 / run.extent;
  Position p = first;
  for (size_t i = k_.size() - 1; i-- > 0; rest /= k_[i].extent) {
    digits[i] = rest % k_[i].extent;
    p.move(k_[i], digits[i], axes_);
  }
  for (int64_t k = k0;; begin = 0) {
    const int64_t count = std::min(k1 - k, run.extent - begin);
    if (inside) {
      take(p.offset + static_cast<uint64_t>(begin) * run.step, count, to);
    } else {
      // The part [low, high) of the run is inside A.
      const int64_t end = begin + count;
      int64_t low = begin, high = end;
      for (int b = 0; b < axes_; ++b) {
        const int64_t c = p.along[b], step = run.along[b];
        if (step == 0) {
          if (c < 0 || c >= size_[b]) high = low;
          continue;
        }
        if (c < 0) low = std::max(low, ceil_div(-c, step));
        high = std::min(high, c < size_[b] ? ceil_div(size_[b] - c, step) : 0);
      }
      low = std::min(low, end);
      high = std::max(high, low);
      std::fill(to, to + (low - begin), 0.0f);
      if (high > low) take(p.offset + static_cast<uint64_t>(low) * run.step, high - low, to + (low - begin));
      std::fill(to + (high - begin), to + count, 0.0f);
    }
    to += count;
    k += count;
    if (k >= k1) return;
    for (size_t i = k_.size() - 1; i-- > 0;) {
      if (++digits[i] < k_[i].extent) {
        p.move(k_[i], 1, axes_);
        break;
      }
      p.move(k_[i], 1 - digits[i], axes_);
      digits[i] = 0;
    }
  }
}

}  // namespace ingot::kernels
