// Runs the blocks of a LinePlan.
#include <algorithm>

#include "backend/cpu/kernels/conv/lines/run/line_plan.h"
#include "backend/cpu/kernels/conv/run/tuning.h"
#include "backend/cpu/kernels/fused/run/block_ops.h"

namespace ingot::kernels {

namespace {

using Index = LinePlan::Index;
using Range = LinePlan::Range;

// Where a block is in the image, and the copy of what its windows read.
class Image {
 public:
  Image(const LinePlan& p, const float* a, float* copy) : p_(p), a_(a), to_(copy) {}

  // True if the plane of taps is inside.
  bool is_inside(const Index& plane) const {
    for (int j = 0; j < p_.rank; ++j) {
      const int64_t place = at[j] + plane.along[j];
      if (j != p_.x.axis && j != p_.y.axis && (place < 0 || place >= p_.size[j])) return false;
    }
    return true;
  }

  // Copies what the block's windows read.
  void copy(int64_t lines) const {
    const int64_t height = p_.y.reach(lines), row = p_.row();
    for (size_t k = 0; k < p_.planes.size(); ++k) {
      float* to = to_ + static_cast<int64_t>(k) * p_.height * row;
      int64_t from = 0;
      const bool inside = is_inside(p_.planes[k]);
      if (!inside && p_.skips) continue;
      for (int j = 0; j < p_.rank; ++j) {
        if (j == p_.x.axis || j == p_.y.axis) continue;
        from += (at[j] + p_.planes[k].along[j]) * p_.stride[j];
      }
      const int64_t top = p_.y.axis >= 0 ? at[p_.y.axis] : 0, size = p_.y.axis >= 0 ? p_.size[p_.y.axis] : 1, step = p_.y.axis >= 0 ? p_.stride[p_.y.axis] : 0;
      const int64_t first = inside ? std::clamp<int64_t>(-top, 0, height) : height, last = std::clamp<int64_t>(size - top, first, height);
      std::fill_n(to, first * row, 0.0f);
      copy_rows(to + first * row, a_ + from + (top + first) * step, step, first, last);
      std::fill_n(to + last * row, (height - last) * row, 0.0f);
    }
  }

  int64_t at[LinePlan::max_axes] = {};  // the block's first window

 private:
  // Copies rows [first, last) of a plane.
  void copy_rows(float* to, const float* from, int64_t from_step, int64_t first, int64_t last) const {
    const int64_t size = p_.size[p_.x.axis], step = p_.x.step, start = at[p_.x.axis];
    if (step == 1 && p_.all_rows) {
      const int64_t begin = std::clamp<int64_t>(-start, 0, p_.run), end = std::clamp<int64_t>(size - start, begin, p_.run);
      return p_.tiles->copy(to, p_.run, from + start, from_step, last - first, begin, end, p_.run);
    }
    if (step == 2 && p_.all_rows && p_.phases == 2) return p_.tiles->copy_by_two(to, p_.run, from, from_step, last - first, start, size);
    for (int64_t y = first; y < last; ++y, to += p_.row(), from += from_step) {
      if (p_.used_rows[static_cast<size_t>(y)] == 0) continue;
      float* run = to;
      for (int64_t phase : p_.used_phases) {
        const int64_t place = start + phase;  // of element 0
        const int64_t begin = std::clamp<int64_t>(place >= 0 ? 0 : (-place + step - 1) / step, 0, p_.run);
        const int64_t end = std::clamp<int64_t>(place >= size ? 0 : (size - place + step - 1) / step, begin, p_.run);
        std::fill_n(run, begin, 0.0f);
        p_.tiles->take(run + begin, from + place + begin * step, step, end - begin);
        std::fill(run + end, run + p_.run, 0.0f);
        run += p_.run;
      }
    }
  }

  const LinePlan& p_;
  const float* const a_;
  float* const to_;
};

// One worker's blocks, one after another.
class Blocks {
 public:
  Blocks(const LinePlan& p, const float* a, const float* b, const float* bias, float* to, std::byte* scratch)
      : p_(p), image_(p, a, reinterpret_cast<float*>(scratch + p.vector_bytes)), a_(a), b_(b), bias_(bias), to_(to) {
    vectors_ = reinterpret_cast<LineVector*>(scratch);
    copy_ = reinterpret_cast<float*>(scratch + p.vector_bytes);
    packed_ = reinterpret_cast<float*>(scratch + p.vector_bytes + p.copy_bytes);
    kept_ = reinterpret_cast<float*>(scratch + p.vector_bytes + p.copy_bytes + p.b_bytes);
    ranges_ = reinterpret_cast<Range*>(scratch + p.vector_bytes + p.copy_bytes + p.b_bytes + p.kept_bytes);
  }

  void run(int64_t unit) {
    const int64_t bx = unit % p_.blocks_x, by = unit / p_.blocks_x % p_.blocks_y;
    int64_t rest = unit / p_.blocks_x / p_.blocks_y, to = 0, bias = 0, b = 0;
    std::copy_n(p_.offset, p_.rank, image_.at);
    for (size_t i = p_.outer.size(); i-- > 0; rest /= p_.outer[i].extent) {
      const Index& index = p_.outer[i];
      const int64_t n = rest % index.extent;
      to += n * index.to, bias += n * index.bias, b += n * index.b;
      for (int j = 0; j < p_.rank; ++j) image_.at[j] += n * index.along[j];
    }
    const int64_t y0 = by * p_.block_y, lines = std::min(p_.block_y, p_.y.extent - y0), x0 = p_.begin_x(bx), outputs = p_.end_x(bx) - x0;
    image_.at[p_.x.axis] += x0 * p_.x.step;
    if (p_.y.axis >= 0) image_.at[p_.y.axis] += y0 * p_.y.step;
    LineTile d;
    d.vectors = vectors_;
    d.taps = p_.tap_offsets.data();
    d.to_step = p_.to_column;
    d.output_step = p_.x.to;
    d.clamps = p_.clamps, d.low = p_.low, d.high = p_.high;
    const int64_t line = p_.in_place ? (p_.y.axis >= 0 ? p_.y.step * p_.stride[p_.y.axis] : 0) : p_.y.step * p_.row();
    if (p_.in_place) {
      d.a = a_;
      for (int j = 0; j < p_.rank; ++j) d.a += image_.at[j] * p_.stride[j];
    } else {
      image_.copy(lines);
      d.a = copy_;
    }
    const int64_t vectors = list(lines, outputs, line);
    float* result = to_ + to + y0 * p_.y.to + x0 * p_.x.to;
    bias_at_ = p_.has_bias ? bias_ + bias : nullptr;
    d.kept = kept_;
    if (p_.across) return across(d, result, vectors, vectors / lines);
    if (p_.skips || range_count_ == 0) find_ranges(0, p_.y.taps);
    const int64_t wide = p_.tiles->max_columns;
    if (p_.column != nullptr && lines >= p_.rows) return below(d, b, result, lines, vectors / lines, line);
    if (p_.panel == 0 && packed_from_ != b) pack(b);
    packed_from_ = b;
    // Sums of `longest_sum` taps are more accurate than long ones, and what they read stays in the first-level cache: A if there are several tiles of columns, else B.
    const int64_t vectors_at_once = p_.tiles->by_columns[std::min(wide, p_.columns)].vectors, groups = (vectors + vectors_at_once - 1) / vectors_at_once;
    auto of_group = [&](int64_t g) {
      const int64_t first = vectors * g / groups;
      d.vectors = vectors_ + first;
      d.count = static_cast<int>(vectors * (g + 1) / groups - first);
      return first;
    };
    if (p_.columns <= wide || std::ssize(p_.taps) < conv::tuning::skipping_taps) {
      for (int64_t n = 0; n < p_.columns; n += wide) {
        set_columns(d, n, result);
        for (int64_t r = 0; r < range_count_; ++r) {
          set_range(d, r);
          for (int64_t g = 0; g < groups; ++g) {
            const int64_t first = of_group(g);
            d.kept = kept_ + (range_count_ > 1 ? first * p_.lanes() * wide : 0);
            p_.tiles->by_columns[d.columns].run(d);
          }
        }
      }
      return;
    }
    for (int64_t g = 0; g < groups; ++g) {
      of_group(g);
      for (int64_t r = 0; r < range_count_; ++r) {
        set_range(d, r);
        for (int64_t n = 0; n < p_.columns; n += wide) {
          set_columns(d, n, result);
          d.kept = kept_ + n * vectors_at_once * p_.lanes();
          p_.tiles->by_columns[d.columns].run(d);
        }
      }
    }
  }

 private:
  // The columns from `n` on.
  void set_columns(LineTile& d, int64_t n, float* result) const {
    const int64_t wide = p_.tiles->max_columns;
    d.columns = static_cast<int>(std::min(wide, p_.columns - n));
    d.b = p_.panel == 0 ? packed_ + n * std::ssize(p_.taps) : b_ + n / p_.panel * p_.panel * std::ssize(p_.taps) + n % p_.panel;
    d.b_row = p_.panel == 0 ? wide : p_.panel;
    d.bias = bias_at_ != nullptr ? bias_at_ + n * p_.bias_column : nullptr;
    d.to = result + n * p_.to_column;
  }

  void set_range(LineTile& d, int64_t r) const {
    d.begin = ranges_[r].begin, d.end = ranges_[r].end;
    d.first = r == 0, d.last = r + 1 == range_count_;
  }

  // Panels of columns, of which each vector of outputs of a line is a tile.
  __attribute__((noinline)) void across(LineTile& d, float* result, int64_t vectors, int64_t of_line) {
    float* const transposed = kept_ + p_.panel * p_.lanes();
    int64_t first = -1, last = -1;
    for (int64_t n = 0; n < p_.columns; n += p_.panel) {
      set_columns(d, n, result);
      d.columns = static_cast<int>(std::min(p_.panel, p_.columns - n));
      for (int64_t v = 0; v < vectors; ++v) {
        const auto [begin, end] = rows_inside(v / of_line);
        if (begin != first || end != last) find_ranges(begin, end);
        first = begin, last = end;
        d.vectors = vectors_ + v;
        for (int64_t r = 0; r < range_count_; ++r) {
          set_range(d, r);
          p_.tiles->across(d);
        }
        block_ops().transpose(transposed, p_.lanes(), kept_, p_.panel, p_.lanes(), d.columns);
        p_.tiles->finish(d, transposed, d.vectors, 1);
      }
    }
  }

  // Of the taps below one another, those inside A for a line of the block.
  Range rows_inside(int64_t line) const {
    if (!p_.skips || p_.y.taps == 1) return {0, p_.y.taps};
    const int64_t top = image_.at[p_.y.axis] + line * p_.y.step, dilation = p_.y.dilation, begin = std::min(p_.y.taps, (std::max<int64_t>(0, -top) + dilation - 1) / dilation);
    return {begin, std::max(begin, std::min(p_.y.taps, (p_.size[p_.y.axis] - top + dilation - 1) / dilation))};
  }

  // Lists the vectors of a block, and returns their number. The last one of a line that is read in place overlaps the one before.
  int64_t list(int64_t lines, int64_t outputs, int64_t step) {
    const int64_t lanes = p_.vector(), all = lines * p_.vectors(outputs);
    if (lines == lines_ && outputs == outputs_) return all;
    lines_ = lines, outputs_ = outputs;
    LineVector* next = vectors_;
    for (int64_t y = 0; y < lines; ++y) {
      for (int64_t x = 0; x < outputs; x += lanes) {
        const int64_t from = p_.in_place ? std::min(x, outputs - lanes) : x;
        *next++ = {y * step + from, y * p_.y.to + from * p_.x.to, std::min(lanes, outputs - from)};
      }
    }
    return all;
  }

  // One column, several lines at a time. The last ones may be computed twice.
  void below(LineTile d, int64_t b, float* result, int64_t lines, int64_t vectors, int64_t a_row) const {
    set_columns(d, 0, result);
    LineVector at[8];
    LineColumn column;
    column.a_row = a_row;
    column.taps_of = p_.tap_columns;
    column.b = b_ + b;
    column.b_row = p_.b_below;
    d.vectors = at;
    for (int64_t y = 0; y < lines; y += p_.rows) {
      const int64_t top = std::min(y, lines - p_.rows);
      for (int64_t v = 0; v < vectors; ++v) {
        for (int64_t r = 0; r < p_.rows; ++r) at[r] = vectors_[(top + r) * vectors + v];
        column.a = d.a + at[0].a;
        p_.column(column, d);
      }
    }
  }

  // The taps of the block's planes inside A, and of rows [first, last) of each, cut into sums. At least one range, so that results are stored.
  void find_ranges(int64_t first, int64_t last) {
    const int64_t planes = std::ssize(p_.planes), of_plane = std::ssize(p_.taps) / planes, of_row = of_plane / p_.y.taps;
    range_count_ = 0;
    auto add = [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += longest_sum) ranges_[range_count_++] = {begin, std::min(begin + longest_sum, end)};
    };
    int64_t begin = 0, end = 0;
    for (int64_t k = 0; k < planes; ++k) {
      if (p_.skips && !image_.is_inside(p_.planes[static_cast<size_t>(k)])) continue;
      if (const int64_t from = k * of_plane + first * of_row; from != end) {
        add(begin, end);
        begin = from;
      }
      end = k * of_plane + last * of_row;
    }
    add(begin, end);
    if (range_count_ == 0) ranges_[range_count_++] = {0, 0};
  }

  // Panels of a strided B.
  void pack(int64_t from) const {
    const int64_t wide = p_.tiles->max_columns;
    float* to = packed_;
    for (int64_t n = 0; n < p_.columns; n += wide) {
      const int64_t columns = std::min(wide, p_.columns - n);
      for (int64_t row : p_.b_rows) {
        const float* b = b_ + from + row + n * p_.b_column;
        for (int64_t c = 0; c < columns; ++c) to[c] = b[c * p_.b_column];
        std::fill(to + columns, to + wide, 0.0f);
        to += wide;
      }
    }
  }

  const LinePlan& p_;
  Image image_;
  const float *a_, *b_, *bias_;
  float* to_;
  LineVector* vectors_;
  float *copy_, *packed_, *kept_;
  int64_t packed_from_ = INT64_MIN, lines_ = 0, outputs_ = 0;
  const float* bias_at_ = nullptr;
  Range* ranges_;
  int64_t range_count_ = 0;
};

}  // namespace

void run_lines(const LinePlan& p, const std::byte* a, const std::byte* b, const std::byte* bias, std::byte* to, std::byte* scratch, Workers& workers) {
  workers.run(p.tasks, [&](int64_t task, int worker) {
    Blocks blocks(p, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b), reinterpret_cast<const float*>(bias), reinterpret_cast<float*>(to),
                  scratch + static_cast<size_t>(worker) * p.per_worker());
    for (int64_t u = p.units * task / p.tasks; u < p.units * (task + 1) / p.tasks; ++u) blocks.run(u);
  });
}

}  // namespace ingot::kernels
