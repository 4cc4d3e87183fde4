// Scatter on the CPU: one thread, in the order of the updates, so that results never depend on timing.
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

// Updates are walked line by line along their last axis, where each offset grows by a step.
struct Line {
  int64_t length = 1;
  int64_t from_step = 0, to_step = 0;
  int64_t index_step[max_rank] = {};
};

int64_t index_of(const TensorRef& t, int64_t offset) { return PlainElement<int64_t>::get(element(t, offset)); }

// Loops for what is written most, and for all others.
template <class F>
void with_kind(ScatterArgs::Kind kind, F fn) {
  if (kind == ScatterArgs::Kind::set) return fn([] { return ScatterArgs::Kind::set; });
  fn([kind] { return kind; });
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
  if (numel(updates) == 0) return;
  // Axis d of the updates is axis `d - position` of the indices, or an axis of the result that is not indexed.
  const int last = updates.rank - 1;
  int64_t to_strides[max_rank] = {};
  for (int d = 0, rest = 0; d < out.rank; ++d) {
    if (scattered(args, d)) continue;
    to_strides[rest < args.position ? rest : rest + first.rank] = out.strides[d];
    ++rest;
  }
  auto is_index = [&](int d) { return d >= args.position && d < args.position + first.rank; };
  Line line;
  if (last >= 0) line = {updates.dims[last], updates.strides[last], is_index(last) ? 0 : to_strides[last], {}};
  for (size_t k = 0; k < args.axes.size(); ++k) line.index_step[k] = last >= 0 && is_index(last) ? call.operands[1 + k].strides[last - args.position] : 0;
  TensorRef lines = updates;
  lines.rank = std::max(last, 0);
  with_element(out.dtype, [&](auto type) {
    using E = decltype(type);
    with_kind(args.kind, [&](auto kind) {
      int64_t at[max_rank], index_at[max_rank];
      for (int64_t n = 0, end = numel(lines); n < end; ++n) {
        coordinates(n, lines, at);
        int64_t from = 0, base = 0;
        for (int d = 0; d < last; ++d) {
          from += at[d] * updates.strides[d];
          if (!is_index(d)) base += at[d] * to_strides[d];
        }
        for (size_t k = 0; k < args.axes.size(); ++k) {
          index_at[k] = 0;
          for (int d = args.position; d < std::min(args.position + first.rank, last); ++d) index_at[k] += at[d] * call.operands[1 + k].strides[d - args.position];
        }
        for (int64_t i = 0; i < line.length; ++i) {
          int64_t to = base + i * line.to_step;
          for (size_t k = 0; k < args.axes.size(); ++k) {
            const int64_t index = index_of(call.operands[1 + k], index_at[k] + i * line.index_step[k]);
            to += checked(index, out.dims[args.axes[k]], args.wrap) * out.strides[args.axes[k]];
          }
          E::put(element(out, to), combine(kind(), E::get(element(out, to)), E::get(element(updates, from + i * line.from_step))));
        }
      }
    });
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
