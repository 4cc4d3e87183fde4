#include "backend/cpu/kernels/conv/rows/run/window_rows.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/conv/rows/run/tuning.h"

namespace ingot::kernels::conv {

namespace {

// Runs are short: two copies of a fixed size that overlap are faster than a call.
template <size_t size>
inline void copy_ends(std::byte* to, const std::byte* from, size_t bytes) {
  std::byte head[size], tail[size];
  std::memcpy(head, from, size);
  std::memcpy(tail, from + bytes - size, size);
  std::memcpy(to, head, size);
  std::memcpy(to + bytes - size, tail, size);
}

inline void copy_run(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > rows_tuning::longest_inline_run) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 64) {
    copy_ends<64>(to, from, bytes);
  } else if (bytes >= 32) {
    copy_ends<32>(to, from, bytes);
  } else if (bytes >= 16) {
    copy_ends<16>(to, from, bytes);
  } else if (bytes >= 8) {
    copy_ends<8>(to, from, bytes);
  } else if (bytes >= 4) {
    copy_ends<4>(to, from, bytes);
  } else {
    std::memcpy(to, from, sizeof(uint16_t));
  }
}

template <class T>
void gather(std::byte* to, const std::byte* from, const std::vector<int64_t>& places) {
  auto* const out = reinterpret_cast<T*>(to);
  const auto* const in = reinterpret_cast<const T*>(from);
  for (size_t i = 0; i < places.size(); ++i) out[i] = in[places[i]];
}

}  // namespace

WindowRows::WindowRows(const IndexMap& map, size_t batch_rank, size_t m_rank, int64_t size) : size_(size), axes_(map.axes) {
  const auto first_m = map.indices.begin() + static_cast<int64_t>(batch_rank), first_k = first_m + static_cast<int64_t>(m_rank);
  std::copy(map.size, map.size + axes_, extent_);
  m_ = collapsed({first_m, first_k}, axes_);
  for (auto k = first_k; k != map.indices.end(); ++k) {
    for (int b = 0; b < axes_; ++b) reach_[b] += k->along[b] * std::max<int64_t>(0, k->extent - 1);
  }
  gather_ = size == sizeof(uint16_t) ? gather<uint16_t> : size == sizeof(uint32_t) ? gather<uint32_t> : gather<uint64_t>;
  fits_ = list(collapsed({first_k, map.indices.end()}, axes_), cut_) && list(collapsed({first_k, map.indices.end()}, 0), inside_);
  if (inside_.length > 1) return;
  for (const Position& p : inside_.starts) places_.push_back(static_cast<int64_t>(p.offset));
}

bool WindowRows::list(std::vector<Index> k, Runs& to) const {
  const bool together = std::all_of(k.back().along, k.back().along + axes_, [](int64_t x) { return x == 0; });
  const bool inner = k.back().step == 1 && (together || &to == &inside_);
  if (inner) {
    to.length = k.back().extent;
    k.pop_back();
  }
  int64_t count = 1;
  for (const Index& i : k) {
    if (i.extent > 0 && count > rows_tuning::max_runs / i.extent) return false;
    count *= i.extent;
  }
  to.starts.assign(count > 0 && to.length > 0 ? 1 : 0, Position{});
  for (const Index& i : k) {
    std::vector<Position> all;
    for (const Position& p : to.starts) {
      for (int64_t at = 0; at < i.extent; ++at) {
        all.push_back(p);
        all.back().move(i, at, axes_);
      }
    }
    to.starts = std::move(all);
  }
  return true;
}

bool WindowRows::in_place(int64_t& step) const {
  step = static_cast<int64_t>(m_[0].step) * size_;
  return axes_ == 0 && m_.size() == 1 && inside_.starts.size() == 1;
}

bool WindowRows::is_inside(const Position& row) const {
  for (int b = 0; b < axes_; ++b) {
    if (row.along[b] < 0 || row.along[b] + reach_[b] >= extent_[b]) return false;
  }
  return true;
}

void WindowRows::copy_row(const std::byte* a, const Position& row, int64_t k0, int64_t k1, std::byte* to) const {
  const bool inside = is_inside(row);
  const Runs& runs = inside ? inside_ : cut_;
  auto leaves = [&](const Position& run) {
    for (int b = 0; b < axes_; ++b) {
      const int64_t at = row.along[b] + run.along[b];
      if (at < 0 || at >= extent_[b]) return true;
    }
    return false;
  };
  const auto whole = static_cast<size_t>(runs.length * size_);
  if (inside && k0 == 0 && k1 == std::ssize(places_)) return gather_(to, a + static_cast<int64_t>(row.offset) * size_, places_);
  if (inside && k0 == 0 && k1 == runs.length * std::ssize(runs.starts)) {
    for (const Position& run : runs.starts) {
      copy_run(to, a + static_cast<int64_t>(row.offset + run.offset) * size_, whole);
      to += whole;
    }
    return;
  }
  for (int64_t k = k0, i = k0 / runs.length, begin = k0 % runs.length; k < k1; ++i, begin = 0) {
    const int64_t count = std::min(k1 - k, runs.length - begin);
    const Position& run = runs.starts[static_cast<size_t>(i)];
    const auto bytes = static_cast<size_t>(count * size_);
    if (inside || !leaves(run)) {
      copy_run(to, a + static_cast<int64_t>(row.offset + run.offset + static_cast<uint64_t>(begin)) * size_, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
    to += bytes;
    k += count;
  }
}

void WindowRows::copy(const std::byte* a, const Position& image, int64_t m, int64_t rows, int64_t k0, int64_t k1, std::byte* to, int64_t stride) const {
  int64_t digits[IndexMap::max_axes], rest = m;
  Position row = image;
  for (size_t i = m_.size(); i-- > 0; rest /= m_[i].extent) {
    digits[i] = rest % m_[i].extent;
    row.move(m_[i], digits[i], axes_);
  }
  for (int64_t r = 0; r < rows; ++r, to += stride) {
    copy_row(a, row, k0, k1, to);
    for (size_t i = m_.size(); i-- > 0;) {
      if (++digits[i] < m_[i].extent) {
        row.move(m_[i], 1, axes_);
        break;
      }
      row.move(m_[i], 1 - digits[i], axes_);
      digits[i] = 0;
    }
  }
}

}  // namespace ingot::kernels::conv
