// Sort and topk on the CPU. Each line is copied together with its positions and sorted there. Positions break ties, which makes the sort stable
// without a stable algorithm (which would allocate).
#include <algorithm>
#include <cmath>

#include "kernels/run/elements.h"
#include "kernels/sort/run/sort_checks.h"

namespace ingot::kernels {

namespace {

template <class Number>
struct Item {
  Number value;
  int64_t position;
};

size_t bytes_of_line(const TensorRef& in, int axis) {
  auto length = static_cast<size_t>(in.rank == 0 ? 1 : in.dims[axis]);
  return (length * sizeof(Item<int64_t>) + 63) / 64 * 64;
}

Resolved resolve(const Call& call) {
  check_sort(call);
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  return {static_cast<size_t>(call.workers->count()) * bytes_of_line(call.operands[0], args.axis), nullptr};
}

template <class Number>
bool less(Number a, Number b) {
  if constexpr (std::is_same_v<Number, double>) return std::isnan(b) ? !std::isnan(a) : a < b;
  return a < b;
}

void run(const Call& call) {
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  int axis = args.axis;
  int64_t length = in.rank == 0 ? 1 : in.dims[axis], k = in.rank == 0 ? 1 : values.dims[axis];
  if (numel(values) == 0) return;
  size_t line_bytes = bytes_of_line(in, axis);
  with_element(in.dtype, [&](auto type) {
    using E = decltype(type);
    using I = Item<typename E::Number>;
    for_lines(in, axis, *call.workers, [&](const int64_t* at, int worker) {
      I* line = reinterpret_cast<I*>(call.scratch + static_cast<size_t>(worker) * line_bytes);
      int64_t from = 0, to_values = 0, to_indices = 0;
      for (int d = 0; d < in.rank; ++d) {
        if (d == axis) continue;
        from += at[d] * in.strides[d];
        to_values += at[d] * values.strides[d];
        to_indices += at[d] * indices.strides[d];
      }
      auto step = [&](const TensorRef& t) { return t.rank == 0 ? 0 : t.strides[axis]; };
      for (int64_t i = 0; i < length; ++i) line[i] = {E::get(element(in, from + i * step(in))), i};
      auto before = [&](const I& a, const I& b) {
        bool up = less(a.value, b.value), down = less(b.value, a.value);
        if (up != down) return args.descending ? down : up;
        return a.position < b.position;
      };
      if (k < length) {
        std::partial_sort(line, line + k, line + length, before);
      } else {
        std::sort(line, line + length, before);
      }
      for (int64_t i = 0; i < k; ++i) {
        E::put(element(values, to_values + i * step(values)), line[i].value);
        PlainElement<int64_t>::put(element(indices, to_indices + i * step(indices)), line[i].position);
      }
    });
  });
}

}  // namespace

std::span<const RunKernel> sort_cpu_kernels() {
  static constexpr RunKernel list[] = {{"sort", load_sort, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
