// Scatter on the CPU: one thread, in the order of the updates, so that results never depend on timing.
#include <algorithm>
#include <cmath>

#include "kernels/elements.h"
#include "kernels/scatter/scatter_args.h"

namespace ingot::kernels {

namespace {

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ScatterArgs>(parse_scatter(constants));
  if (operands != args->axes.size() + 2 || sizes != 0) fail(Code::format, "a scatter step has {} operands for {} axes", operands, args->axes.size());
  return args;
}

std::shared_ptr<const void> load_along(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<ScatterArgs>(parse_scatter(constants));
  if (operands != 3 || args->axes.size() != 1 || sizes != 0) fail(Code::format, "a scatter_along step has {} operands", operands);
  return args;
}

bool scattered(const ScatterArgs& args, int axis) { return std::find(args.axes.begin(), args.axes.end(), axis) != args.axes.end(); }

backend::Resolved resolve(const backend::Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const backend::TensorRef &updates = call.operands[0], &out = call.operands.back(), &index = call.operands[1];
  int free_axes = out.rank - static_cast<int>(args.axes.size());
  bool fits = updates.dtype == out.dtype && out.dtype != ir::DType::c64 && out.rank <= max_rank && updates.rank <= max_rank && free_axes >= 0 &&
              updates.rank == free_axes + index.rank && args.position <= free_axes;
  for (uint8_t a : args.axes) fits = fits && a < out.rank;
  for (size_t k = 0; k < args.axes.size(); ++k) {
    const backend::TensorRef& x = call.operands[1 + k];
    fits = fits && x.dtype == ir::DType::i64 && x.rank == index.rank && std::equal(x.dims, x.dims + x.rank, index.dims);
  }
  for (int d = 0, rest = 0; fits && d < out.rank; ++d) {
    if (scattered(args, d)) continue;
    fits = updates.dims[rest < args.position ? rest : rest + index.rank] == out.dims[d];
    ++rest;
  }
  for (int d = 0; fits && d < index.rank; ++d) fits = updates.dims[args.position + d] == index.dims[d];
  if (!fits) fail(Code::format, "the operands of a scatter do not fit");
  return {};
}

backend::Resolved resolve_along(const backend::Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const backend::TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
  bool fits = index.dtype == ir::DType::i64 && updates.dtype == out.dtype && out.dtype != ir::DType::c64 && out.rank <= max_rank && index.rank == out.rank &&
              updates.rank == out.rank && args.axes[0] < std::max(out.rank, 1) && std::equal(index.dims, index.dims + index.rank, updates.dims);
  for (int d = 0; fits && d < out.rank; ++d) fits = d == args.axes[0] || index.dims[d] <= out.dims[d];
  if (!fits) fail(Code::format, "the operands of a scatter_along do not fit");
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

int64_t index_at(const backend::TensorRef& t, const int64_t* at) {
  int64_t offset = 0;
  for (int d = 0; d < t.rank; ++d) offset += at[d] * t.strides[d];
  return PlainElement<int64_t>::get(element(t, offset));
}

void run(const backend::Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const backend::TensorRef &updates = call.operands[0], &out = call.operands.back(), &first = call.operands[1];
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

void run_along(const backend::Call& call) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const backend::TensorRef &index = call.operands[0], &updates = call.operands[1], &out = call.operands[2];
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

extern const backend::RunKernel scatter_kernel, scatter_along_kernel;
const backend::RunKernel scatter_kernel{"scatter", load, resolve, run};
const backend::RunKernel scatter_along_kernel{"scatter_along", load_along, resolve_along, run_along};

}  // namespace ingot::kernels
