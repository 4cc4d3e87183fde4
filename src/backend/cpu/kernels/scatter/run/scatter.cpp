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

int64_t index_at(const TensorRef& t, const int64_t* at) {
  int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) offset += at[d] * t.strides[d];
  return PlainElement<int64_t>::get(element(t, offset));
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
  with_element(out.dtype, [&](auto type) {
    using E = decltype(type);
    int64_t at[max_rank];
    for (int64_t n = 0, end = numel(updates); n < end; ++n) {
      coordinates(n, updates, at);
      int64_t from = 0, to = 0;
      for (int d = 0; d < updates.rank; ++d) from += at[d] * updates.strides[d];
      for (size_t k = 0; k < args.axes.size(); ++k) {
        int64_t i = checked(index_at(call.operands[1 + k], at + args.position), out.dims[args.axes[k]], args.wrap);
        to += i * out.strides[args.axes[k]];
      }
      for (int d = 0, rest = 0; d < out.rank; ++d) {
        if (scattered(args, d)) continue;
        to += at[rest < args.position ? rest : rest + first.rank] * out.strides[d];
        ++rest;
      }
      E::put(element(out, to), combine(args.kind, E::get(element(out, to)), E::get(element(updates, from))));
    }
  });
}

void run_along(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  int axis = args.axes[0];
  with_element(out.dtype, [&](auto type) {
    using E = decltype(type);
    int64_t at[max_rank];
    for (int64_t n = 0, end = numel(index); n < end; ++n) {
      coordinates(n, index, at);
      int64_t from = 0, to = 0, target = checked(index_at(index, at), out.rank == 0 ? 1 : out.dims[axis], args.wrap);
      for (int d = 0; d < out.rank; ++d) {
        from += at[d] * updates.strides[d];
        to += (d == axis ? target : at[d]) * out.strides[d];
      }
      E::put(element(out, to), combine(args.kind, E::get(element(out, to)), E::get(element(updates, from))));
    }
  });
}

}  // namespace

std::span<const RunKernel> scatter_cpu_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolve, run}, {"scatter_along", load_scatter_along, resolve_along, run_along}};
  return list;
}

}  // namespace ingot::kernels
