// Scatter on the CPU, in the order of the updates. One thread writes each part of the result, so results do not depend on timing.
#include <algorithm>
#include <cmath>

#include "kernels/run/elements.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::kernels {

namespace {

Resolved resolve(const Call& call) {
  check_scatter(call);
  return {};
}

Resolved resolve_along(const Call& call) {
  check_scatter_along(call);
  return {};
}

template <class Number>
Number combine(ScatterArgs::Kind kind, Number a, Number b) {
  using Kind = ScatterArgs::Kind;
  bool nan = false;
  if constexpr (std::is_same_v<Number, double>) nan = std::isnan(a) || std::isnan(b);
  switch (kind) {
    case Kind::set: return b;
    case Kind::min: return nan ? a + b : std::min(a, b);
    case Kind::max: return nan ? a + b : std::max(a, b);
    default: break;
  }
  if constexpr (std::is_same_v<Number, double>) {
    return kind == Kind::add ? a + b : a * b;
  } else {
    auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(kind == Kind::add ? x + y : x * y);
  }
}

int64_t checked(int64_t index, int64_t size, bool wrap) {
  int64_t v = wrap && index < 0 ? index + size : index;
  if (v < 0 || v >= size) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", index, size);
  return v;
}

// The updates are walked line by line along their last axis, with a constant stride per offset.
struct Line {
  int64_t length = 1;
  int64_t from_step = 0, to_step = 0;
  int64_t index_step[max_rank] = {};
};

int64_t index_of(const TensorRef& t, int64_t offset) { return PlainElement<int64_t>::get(element(t, offset)); }

// Adds contiguous elements to contiguous elements.
template <class M>
void add_neighbours(M* to, const M* from, int64_t n) {
  typedef M Vector __attribute__((vector_size(16), aligned(alignof(M)), may_alias));
  constexpr auto lanes = static_cast<int64_t>(sizeof(Vector) / sizeof(M));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) *reinterpret_cast<Vector*>(to + i) += *reinterpret_cast<const Vector*>(from + i);
  for (; i < n; ++i) to[i] += from[i];
}

// Scatters a line to equidistant places.
template <class M>
void put_line(ScatterArgs::Kind kind, std::byte* into, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n) {
  M* to = reinterpret_cast<M*>(into);
  const M* x = reinterpret_cast<const M*>(from);
  if (kind == ScatterArgs::Kind::set) {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = x[i * from_step];
  } else if (to_step == 1 && from_step == 1) {
    add_neighbours(to, x, n);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] += x[i * from_step];
  }
}

// Calls `fn` with a compile-time kind for the common ones.
template <class F>
void with_kind(ScatterArgs::Kind kind, F fn) {
  if (kind == ScatterArgs::Kind::set) return fn([] { return ScatterArgs::Kind::set; });
  fn([kind] { return kind; });
}

// The updates of a scatter and their destinations.
class Scatter {
 public:
  explicit Scatter(const Call& call)
      : args_(*static_cast<const ScatterArgs*>(call.constants)),
        call_(call),
        updates_(call.operands[0]),
        out_(call.operands.back()),
        first_(call.operands[1]),
        last_(updates_.rank - 1) {
    // Axis d of the updates is axis `d - position` of the indices, or a result axis that is not indexed.
    for (int d = 0, rest = 0; d < out_.rank; ++d) {
      if (scattered(args_, d)) continue;
      to_strides_[rest < args_.position ? rest : rest + first_.rank] = out_.strides[d];
      ++rest;
    }
    if (last_ >= 0) line_ = {updates_.dims[last_], updates_.strides[last_], to_strides_[last_], {}};
    for (size_t k = 0; k < args_.axes.size(); ++k) {
      for (int d = args_.position; d < args_.position + first_.rank; ++d) index_strides_[k][d] = index(k).strides[d - args_.position];
      line_.index_step[k] = last_ >= 0 ? index_strides_[k][last_] : 0;
    }
    lines_ = updates_;
    lines_.rank = std::max(last_, 0);
    const bool adds = args_.kind == ScatterArgs::Kind::add && (out_.dtype == ir::DType::f32 || out_.dtype == ir::DType::f64);
    plain_ = last_ >= 0 && (adds || (args_.kind == ScatterArgs::Kind::set && out_.dtype != ir::DType::b8));
  }

  // Slices along the axes before the indices are disjoint in the result, so threads may take them.
  int64_t parts() const {
    int64_t n = 1;
    for (int d = 0; d < std::min(static_cast<int>(args_.position), last_); ++d) n *= updates_.dims[d];
    return n;
  }

  template <class E>
  void lines(int64_t begin, int64_t end) const {
    with_kind(args_.kind, [&](auto kind) {
      Walk at = walk(begin);
      for (int64_t n = begin; n < end; ++n, next(at)) {
        int64_t to = at.base, step = line_.to_step;
        if (plain_ && equal_steps(at, to, step)) {
          put_line<typename E::Memory>(args_.kind, element(out_, to), step, element(updates_, at.from), line_.from_step, line_.length);
          continue;
        }
        for (int64_t i = 0; i < line_.length; ++i) {
          to = at.base + i * line_.to_step;
          for (size_t k = 0; k < args_.axes.size(); ++k) {
            const int64_t value = index_of(index(k), at.index[k] + i * line_.index_step[k]);
            to += checked(value, out_.dims[args_.axes[k]], args_.wrap) * out_.strides[args_.axes[k]];
          }
          E::put(element(out_, to), combine(kind(), E::get(element(out_, to)), E::get(element(updates_, at.from + i * line_.from_step))));
        }
      }
    });
  }

 private:
  const TensorRef& index(size_t k) const { return call_.operands[1 + k]; }

  // The start of a line: in the updates, in the result (without its indices), and in each index.
  struct Walk {
    int64_t coordinates[max_rank] = {};
    int64_t from = 0, base = 0, index[max_rank] = {};
    // The stride of the last line examined, per index.
    int64_t looked_at[max_rank], grows[max_rank];
  };
  Walk walk(int64_t line) const {
    Walk w;
    coordinates(line, lines_, w.coordinates);
    std::fill(w.looked_at, w.looked_at + max_rank, INT64_MIN);
    for (int d = 0; d < last_; ++d) move(w, d, w.coordinates[d]);
    return w;
  }
  void move(Walk& w, int d, int64_t by) const {
    w.from += by * updates_.strides[d];
    w.base += by * to_strides_[d];
    for (size_t k = 0; k < args_.axes.size(); ++k) w.index[k] += by * index_strides_[k][d];
  }
  void next(Walk& w) const {
    for (int d = last_ - 1; d >= 0; --d) {
      move(w, d, 1);
      if (++w.coordinates[d] < updates_.dims[d]) return;
      move(w, d, -updates_.dims[d]);
      w.coordinates[d] = 0;
    }
  }

  // True if all indices of a line grow by a constant step and are inside; then sets the first place and the stride.
  bool equal_steps(Walk& w, int64_t& to, int64_t& step) const {
    for (size_t k = 0; k < args_.axes.size(); ++k) {
      const int64_t by = line_.index_step[k], extent = out_.dims[args_.axes[k]], stride = out_.strides[args_.axes[k]];
      const auto* values = reinterpret_cast<const int64_t*>(element(index(k), w.index[k]));
      const int64_t begin = values[0], end = values[(line_.length - 1) * by];
      if (begin < 0 || begin >= extent || end < 0 || end >= extent) return false;
      if (by == 0) w.grows[k] = 0;
      if (by != 0 && w.looked_at[k] != w.index[k]) {
        const int64_t rest = std::max<int64_t>(line_.length - 1, 1), grows = (end - begin) / rest;
        bool same = begin + rest * grows == end || line_.length == 1;
        for (int64_t i = 1; i < line_.length; ++i) same = same && values[i * by] == begin + i * grows;
        if (!same) return false;
        w.looked_at[k] = w.index[k];
        w.grows[k] = grows;
      }
      to += begin * stride;
      step += w.grows[k] * stride;
    }
    return true;
  }

  const ScatterArgs& args_;
  const Call& call_;
  const TensorRef &updates_, &out_, &first_;
  const int last_;
  int64_t to_strides_[max_rank] = {}, index_strides_[max_rank][max_rank] = {};  // along the updates' axes
  Line line_;
  TensorRef lines_;
  bool plain_ = false;
};

void run(const Call& call) {
  const TensorRef& updates = call.operands[0];
  if (numel(updates) == 0) return;
  const Scatter scatter(call);
  const int64_t parts = scatter.parts(), all = numel(updates) / std::max<int64_t>(updates.rank > 0 ? updates.dims[updates.rank - 1] : 1, 1);
  const int64_t tasks = numel(updates) < 30000 ? 1 : std::min<int64_t>(parts, int64_t{4} * call.workers->count());
  with_element(call.operands.back().dtype, [&](auto type) {
    using E = decltype(type);
    call.workers->run(tasks, [&](int64_t task, int) { scatter.lines<E>(parts * task / tasks * (all / parts), parts * (task + 1) / tasks * (all / parts)); });
  });
}

void run_along(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  if (numel(index) == 0) return;
  const int axis = args.axes[0], last = index.rank - 1;
  const int64_t size = out.rank == 0 ? 1 : out.dims[axis], step = out.rank == 0 ? 0 : out.strides[axis];
  Line line;
  if (last >= 0) line = {index.dims[last], updates.strides[last], last == axis ? 0 : out.strides[last], {index.strides[last]}};
  TensorRef lines = index;
  lines.rank = std::max(last, 0);
  with_element(out.dtype, [&](auto type) {
    using E = decltype(type);
    with_kind(args.kind, [&](auto kind) {
      int64_t at[max_rank];
      for (int64_t n = 0, end = numel(lines); n < end; ++n) {
        coordinates(n, lines, at);
        int64_t from = 0, base = 0, where = 0;
        for (int d = 0; d < last; ++d) {
          from += at[d] * updates.strides[d];
          where += at[d] * index.strides[d];
          if (d != axis) base += at[d] * out.strides[d];
        }
        for (int64_t i = 0; i < line.length; ++i) {
          const int64_t to = base + i * line.to_step + checked(index_of(index, where + i * line.index_step[0]), size, args.wrap) * step;
          E::put(element(out, to), combine(kind(), E::get(element(out, to)), E::get(element(updates, from + i * line.from_step))));
        }
      }
    });
  });
}

}  // namespace

std::span<const RunKernel> scatter_cpu_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolve, run}, {"scatter_along", load_scatter_along, resolve_along, run_along}};
  return list;
}

}  // namespace ingot::kernels
