#include "backend/cpu/kernels/fused/run/segment_copy.h"

#include <algorithm>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

// `joins`: a row has two axes, whose inner one is copied whole, as the channels of an image whose lines are padded.
class SegmentFinder {
 public:
  SegmentFinder(const Cut& cut, bool joins) : cut_(cut), b_(cut.parts.back().bound), p_(*b_.program), last_(b_.domain.size() - 1), row_(last_), joins_(joins) {}

  std::optional<SegmentCopy> make(int64_t workers) {
    if (!is_copy() || !find_tables() || !(joins_ ? join_lines() : is_contiguous(last_))) return std::nullopt;
    out_.element = ir::size_of(p_.memory[out_.store]);
    const auto size = static_cast<int64_t>(out_.element);
    for (size_t a = 0; a <= last_; ++a) {
      if (a == row_ || (joins_ && a == line_axis_)) continue;
      SegmentCopy::Axis axis{b_.domain[a], b_.strides[out_.store][a] * size, b_.strides[out_.load][a] * size, {}};
      if (is_limited(a)) {
        if (axis.extent > fused_tuning::max_listed_places) return std::nullopt;
        for (int64_t c = 0; c < axis.extent; ++c) {
          const int64_t place = place_of(a, c);
          axis.table.push_back(place == SegmentCopy::outside ? place : place * size);
        }
      }
      out_.rows *= axis.extent;
      out_.outer.push_back(std::move(axis));
    }
    if (out_.outer.empty()) out_.outer.push_back({1, 0, 0, {}});
    out_.base = constant_ * size;
    find_fill();
    if (!find_segments()) return std::nullopt;
    divide(workers);
    return std::move(out_);
  }

 private:
  const ProgramInstruction& load() const { return p_.code[id_]; }

  bool is_copy() {
    if (!b_.is_elementwise(p_) || p_.stores.size() != 1 || b_.line != 0) return false;
    out_.store = p_.stores[0].operand;
    id_ = p_.stores[0].reg;
    if (load().kind != Kind::load || b_.strides.size() <= out_.store || std::find(b_.domain.begin(), b_.domain.end(), 0) != b_.domain.end()) return false;
    out_.load = load().operand;
    const ir::DType type = p_.memory[out_.store];
    return p_.memory[out_.load] == type && out_.load < static_cast<uint32_t>(p_.operands);
  }
  bool is_contiguous(size_t axis) const { return b_.strides[out_.store][axis] == 1 && b_.dims[out_.store][axis] == b_.domain[axis]; }
  bool is_limited(size_t axis) const { return !tables_[axis].empty() || limits(b_, id_, load(), static_cast<int>(axis)); }

  // The axis that is contiguous on both sides, and the one that is next to it in the result. Without places of its own the latter were merged with the former, or is a loop over rows.
  bool join_lines() {
    const std::vector<int64_t>& to = b_.strides[out_.store];
    for (line_axis_ = 0; line_axis_ <= last_ && (!is_contiguous(line_axis_) || b_.domain[line_axis_] == 1); ++line_axis_) {
    }
    if (line_axis_ > last_ || is_limited(line_axis_) || b_.strides[out_.load][line_axis_] != 1) return false;
    line_ = b_.domain[line_axis_];
    for (row_ = 0; row_ <= last_ && (row_ == line_axis_ || to[row_] != line_ || b_.domain[row_] == 1); ++row_) {
    }
    return row_ <= last_ && b_.dims[out_.store][row_] == b_.domain[row_] && is_limited(row_);
  }

  // Indices: each is known, and changes along at most one axis.
  bool find_tables() {
    tables_.resize(last_ + 1);
    for (uint32_t in : load().in) {
      const ProgramInstruction& i = p_.code[in];
      const auto own = static_cast<uint32_t>(p_.operands);
      if (i.kind != Kind::load || i.operand < own || !cut_.held[i.operand - own].known || !i.lower.empty() || !i.in.empty()) return false;
      const auto* numbers = reinterpret_cast<const int64_t*>(cut_.numbers.data() + cut_.held[i.operand - own].offset);
      size_t axis = last_ + 1;
      for (size_t a = 0; a <= last_; ++a) {
        if (b_.strides[i.operand][a] == 0) continue;
        if (axis <= last_) return false;
        axis = a;
      }
      if (axis > last_) {
        constant_ += numbers[0];
        continue;
      }
      const int64_t step = b_.strides[i.operand][axis];
      tables_[axis].resize(static_cast<size_t>(b_.domain[axis]));
      for (int64_t c = 0; c < b_.domain[axis]; ++c) tables_[axis][static_cast<size_t>(c)] += numbers[c * step];
    }
    return true;
  }

  // The offset of coordinate c along an axis, in elements.
  int64_t place_of(size_t axis, int64_t c) const {
    const int64_t stride = b_.strides[out_.load][axis], more = tables_[axis].empty() ? 0 : tables_[axis][static_cast<size_t>(c)];
    if (load().lower.empty()) return c * stride + more;
    c = c * b_.step[id_][axis] - b_.lower[id_][axis];
    return c < 0 || c >= b_.dims[out_.load][axis] ? SegmentCopy::outside : c * stride + more;
  }

  void find_fill() {
    const ProgramInstruction& i = load();
    const auto f = static_cast<float>(i.f);
    const void* value = i.cls == Class::f32 ? static_cast<const void*>(&f) : i.cls == Class::f64 ? static_cast<const void*>(&i.f) : &i.i;
    block_ops().store(p_.memory[out_.store], &out_.fill, 1, {value, true}, 1);
  }

  bool find_segments() {
    const int64_t length = b_.domain[row_], stride = b_.strides[out_.load][row_];
    if (!is_limited(row_)) {
      out_.parts = {{{.to = 0, .from = 0, .n = length, .step = stride}}};
      return true;
    }
    if (length > fused_tuning::max_listed_places) return false;
    out_.parts.resize(1);
    std::vector<RowSegment>& segments = out_.parts[0];
    for (int64_t c = 0; c < length; ++c) {
      const int64_t place = place_of(row_, c);
      RowSegment* segment = segments.empty() ? nullptr : &segments.back();
      if (place == SegmentCopy::outside) {
        if (segment == nullptr || !segment->fills) segments.push_back({.to = c, .from = 0, .n = 0, .step = 0, .fills = true});
        ++segments.back().n;
      } else if (segment != nullptr && !segment->fills && (segment->n == 1 || place == segment->from + segment->n * segment->step)) {
        segment->step = place - (segment->from + (segment->n - 1) * segment->step);
        ++segment->n;
      } else {
        segments.push_back({.to = c, .from = place, .n = 1, .step = 1});
      }
    }
    if (segments.size() > 4 && static_cast<int64_t>(segments.size()) * 8 > length) return false;
    for (RowSegment& segment : segments) {  // of lines become such of elements
      if (joins_ && !segment.fills && segment.n > 1 && segment.step != line_) return false;
      segment.to *= line_, segment.n *= line_;
      if (joins_) segment.step = 1;
    }
    return true;
  }

  // Few long rows are divided among the tasks.
  void divide(int64_t workers) {
    const int64_t length = b_.domain[row_] * line_, count = std::clamp<int64_t>(4 * workers / out_.rows, 1, std::max<int64_t>(length / fused_tuning::copied_part, 1));
    const std::vector<RowSegment> whole = std::move(out_.parts[0]);
    out_.parts.assign(static_cast<size_t>(count), {});
    for (int64_t k = 0; k < count; ++k) {
      const int64_t begin = length * k / count, end = length * (k + 1) / count;
      for (const RowSegment& segment : whole) {
        const int64_t first = std::max(begin, segment.to), last = std::min(end, segment.to + segment.n);
        if (first >= last) continue;
        RowSegment cut = segment;
        cut.to = first;
        cut.from += (first - segment.to) * segment.step;
        cut.n = last - first;
        out_.parts[static_cast<size_t>(k)].push_back(cut);
      }
    }
    out_.units = out_.rows * count;
    out_.tasks = out_.rows * length * static_cast<int64_t>(out_.element) < fused_tuning::copied_alone ? 1 : std::min(out_.units, 4 * workers);
  }

  const Cut& cut_;
  const Bound& b_;
  const Program& p_;
  const size_t last_;
  size_t row_, line_axis_ = 0;  // the axis along which a row has places, and the one inside it
  const bool joins_;
  int64_t line_ = 1;
  uint32_t id_ = 0;
  int64_t constant_ = 0;
  std::vector<std::vector<int64_t>> tables_;  // per axis
  SegmentCopy out_{};
};

}  // namespace

std::optional<SegmentCopy> segment_copy(const Cut& cut, int64_t workers) {
  std::optional<SegmentCopy> joined = SegmentFinder(cut, true).make(workers);
  return joined ? joined : SegmentFinder(cut, false).make(workers);
}

void SegmentCopy::run(std::span<const TensorRef> operands, int64_t begin, int64_t end) const {
  const BlockOps& ops = block_ops();
  const Axis& inner = outer.back();
  const auto count = static_cast<int64_t>(parts.size());
  int64_t at[max_rank] = {};
  for (int64_t unit = begin; unit < end;) {
    int64_t row = unit / count, to = 0, from = base;
    const std::vector<RowSegment>& segments = parts[static_cast<size_t>(unit % count)];
    bool excluded = false;
    for (size_t a = outer.size(); a-- > 0; row /= outer[a].extent) {
      const Axis& axis = outer[a];
      at[a] = row % axis.extent;
      to += at[a] * axis.to;
      if (a + 1 == outer.size()) continue;
      const int64_t place = axis.table.empty() ? at[a] * axis.from : axis.table[static_cast<size_t>(at[a])];
      excluded = excluded || place == outside;
      if (!excluded) from += place;
    }
    const int64_t first = at[outer.size() - 1], rows_here = count > 1 ? 1 : std::min(inner.extent - first, end - unit);
    RowPlaces places{operands[store].data + to, inner.to, nullptr, inner.from, nullptr, rows_here};
    if (!excluded) {
      places.from = operands[load].data + from + (inner.table.empty() ? first * inner.from : 0);
      places.table = inner.table.empty() ? nullptr : inner.table.data() + first;
    }
    ops.copy_rows(element, fill, segments.data(), segments.size(), places);
    unit += rows_here;
  }
}

}  // namespace ingot::kernels
