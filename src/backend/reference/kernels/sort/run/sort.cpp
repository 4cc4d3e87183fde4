// Sort and topk, both stable. NaN counts as the largest number.
#include <algorithm>
#include <cmath>

#include "backend/reference/run/lines.h"
#include "kernels/sort/run/sort_checks.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

Resolved resolve(const Call& call) {
  check_sort(call);
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  return {static_cast<size_t>(length_of(call.operands[0], args.axis)) * sizeof(int64_t), nullptr};
}

bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }
bool less(int64_t a, int64_t b) { return a < b; }

void run(const Call& call) {
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  auto* order = reinterpret_cast<int64_t*>(call.scratch);
  const int64_t length = length_of(in, args.axis), kept = length_of(values, args.axis);
  with_element(in.dtype, [&](auto type) {
    using E = decltype(type);
    each_line(in, args.axis, [&](std::span<const int64_t> at) {
      auto value = [&](int64_t i) { return E::get(element(in, offset_of(in, at, args.axis, i))); };
      for (int64_t i = 0; i < length; ++i) order[i] = i;
      std::sort(order, order + length, [&](int64_t i, int64_t j) {
        const auto a = value(args.descending ? j : i), b = value(args.descending ? i : j);
        return less(a, b) || (!less(b, a) && i < j);
      });
      for (int64_t i = 0; i < kept; ++i) {
        E::put(element(values, offset_of(values, at, args.axis, i)), value(order[i]));
        PlainElement<int64_t>::put(element(indices, offset_of(indices, at, args.axis, i)), order[i]);
      }
    });
  });
}

}  // namespace

std::span<const RunKernel> sort_reference_kernels() {
  static constexpr RunKernel list[] = {{"sort", load_sort, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
