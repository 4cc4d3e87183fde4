// Scans one line at a time: floats in double, rounded when stored; integers wrap.
#include <algorithm>
#include <cmath>

#include "backend/reference/run/lines.h"
#include "kernels/scan/run/scan_checks.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

Resolved resolve(const Call& call) {
  check_scan(call);
  return {};
}

double combine(ScanArgs::Kind kind, double a, double b) {
  using Kind = ScanArgs::Kind;
  if (kind == Kind::sum) return a + b;
  if (kind == Kind::prod) return a * b;
  if (std::isnan(a) || std::isnan(b)) return a + b;
  const double larger = std::max(a, b), smaller = std::min(a, b);
  if (kind == Kind::logsumexp) return std::isinf(larger) ? larger : larger + std::log1p(std::exp(smaller - larger));
  return kind == Kind::max ? larger : smaller;
}

int64_t combine(ScanArgs::Kind kind, int64_t a, int64_t b) {
  using Kind = ScanArgs::Kind;
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  if (kind == Kind::sum || kind == Kind::prod) return static_cast<int64_t>(kind == Kind::sum ? x + y : x * y);
  return kind == Kind::max ? std::max(a, b) : std::min(a, b);
}

void run(const Call& call) {
  const auto& args = *static_cast<const ScanArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &out = call.operands[1];
  with_element(in.dtype, [&](auto type) {
    using E = decltype(type);
    each_line(in, args.axis, [&](std::span<const int64_t> at) {
      typename E::Number total{};
      for (int64_t i = 0; i < length_of(in, args.axis); ++i) {
        const auto x = E::get(element(in, offset_of(in, at, args.axis, i)));
        total = i > 0 || args.kind == ScanArgs::Kind::sum ? combine(args.kind, total, x) : x;
        E::put(element(out, offset_of(out, at, args.axis, i)), total);
      }
    });
  });
}

}  // namespace

std::span<const RunKernel> scan_reference_kernels() {
  static constexpr RunKernel list[] = {{"scan", load_scan, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
