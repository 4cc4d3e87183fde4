// Scatters one update after another, in row-major order.
#include <algorithm>
#include <array>
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

double combine(ScatterArgs::Kind kind, double a, double b) {
  using Kind = ScatterArgs::Kind;
  if (kind == Kind::set) return b;
  if (kind == Kind::add || std::isnan(a) || std::isnan(b)) return kind == Kind::mul ? a * b : a + b;
  return kind == Kind::mul ? a * b : kind == Kind::min ? std::min(a, b) : std::max(a, b);
}

int64_t combine(ScatterArgs::Kind kind, int64_t a, int64_t b) {
  using Kind = ScatterArgs::Kind;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (kind) {
    case Kind::set: return b;
    case Kind::add: return static_cast<int64_t>(x + y);
    case Kind::mul: return static_cast<int64_t>(x * y);
    case Kind::min: return std::min(a, b);
    case Kind::max: return std::max(a, b);
  }
  __builtin_unreachable();
}

int64_t place(int64_t index, int64_t size, bool wrap) {
  const int64_t v = wrap && index < 0 ? index + size : index;
  if (v < 0 || v >= size) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", index, size);
  return v;
}

int64_t offset_of(const TensorRef& t, const int64_t* at) {
  int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) offset += at[d] * t.strides[d];
  return offset;
}

int64_t index_at(const TensorRef& t, const int64_t* at) { return PlainElement<int64_t>::get(element(t, offset_of(t, at))); }

// target(coordinates of the update, coordinates of the result).
template <class F>
void update(const ScatterArgs& args, const TensorRef& updates, const TensorRef& over, const TensorRef& out, F target) {
  with_element(out.dtype, [&](auto type) {
    using E = decltype(type);
    std::array<int64_t, max_rank> at{}, to{};
    for (int64_t n = 0, end = numel(over); n < end; ++n) {
      coordinates(n, over, at.data());
      target(at.data(), to.data());
      std::byte* there = element(out, offset_of(out, to.data()));
      E::put(there, combine(args.kind, E::get(there), E::get(element(updates, offset_of(updates, at.data())))));
    }
  });
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
  update(args, updates, updates, out, [&](const int64_t* at, int64_t* to) {
    for (int d = 0, rest = 0; d < out.rank; ++d) {
      if (!scattered(args, d)) to[d] = at[rest < args.position ? rest : rest + first.rank], ++rest;
    }
    for (size_t k = 0; k < args.axes.size(); ++k) to[args.axes[k]] = place(index_at(call.operands[1 + k], at + args.position), out.dims[args.axes[k]], args.wrap);
  });
}

void run_along(const Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  update(args, updates, index, out, [&](const int64_t* at, int64_t* to) {
    std::copy(at, at + out.rank, to);
    const int64_t v = place(index_at(index, at), out.rank == 0 ? 1 : out.dims[args.axes[0]], args.wrap);
    if (out.rank > 0) to[args.axes[0]] = v;
  });
}

}  // namespace

std::span<const RunKernel> scatter_reference_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolve, run}, {"scatter_along", load_scatter_along, resolve_along, run_along}};
  return list;
}

}  // namespace ingot::kernels
