// Scans on the CPU, one line at a time. Floats run in double, as in ATen; integers wrap.
#include <algorithm>
#include <cmath>

#include "kernels/run/elements.h"
#include "kernels/scan/run/scan_checks.h"

namespace ingot::kernels {

namespace {

Resolved resolve(const Call& call) {
  check_scan(call);
  return {};
}

template <class Number>
Number combine(ScanArgs::Kind kind, Number a, Number b) {
  using Kind = ScanArgs::Kind;
  if constexpr (std::is_same_v<Number, double>) {
    switch (kind) {
      case Kind::sum: return a + b;
      case Kind::prod: return a * b;
      case Kind::max: return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
      case Kind::min: return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
      default: {
        if (std::isnan(a) || std::isnan(b)) return a + b;
        double m = std::max(a, b);
        return std::isinf(m) ? m : m + std::log1p(std::exp(std::min(a, b) - m));
      }
    }
  } else {
    switch (kind) {
      case Kind::sum: return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      case Kind::prod: return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      case Kind::max: return std::max(a, b);
      default: return std::min(a, b);
    }
  }
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScanArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  int axis = args.axis;
  int64_t length = in.rank == 0 ? 1 : in.dims[axis];
  if (numel(in) == 0) return;
  with_element(in.dtype, [&](auto type) {
    using E = decltype(type);
    for_lines(in, axis, *call.workers, [&](const int64_t* at, int) {
      int64_t from = 0, to = 0;
      for (int d = 0; d < in.rank; ++d) {
        if (d == axis) continue;
        from += at[d] * in.strides[d];
        to += at[d] * out.strides[d];
      }
      int64_t from_step = in.rank == 0 ? 0 : in.strides[axis], to_step = in.rank == 0 ? 0 : out.strides[axis];
      typename E::Number total = E::get(element(in, from));
      if (args.kind == ScanArgs::Kind::sum) total = combine(args.kind, typename E::Number{}, total);  // 0 + -0.0 is 0.0
      E::put(element(out, to), total);
      for (int64_t i = 1; i < length; ++i) {
        total = combine(args.kind, total, E::get(element(in, from + i * from_step)));
        E::put(element(out, to + i * to_step), total);
      }
    });
  });
}

}  // namespace

std::span<const RunKernel> scan_cpu_kernels() {
  static constexpr RunKernel list[] = {{"scan", load_scan, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
