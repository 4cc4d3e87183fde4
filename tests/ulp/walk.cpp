// Compares the CPU's functions of one float32 with the reference, one block of inputs a call; walk.py asks.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/run/isa.h"
#include "ir/op.h"
#include "reference.h"

namespace {

using namespace ingot;

constexpr int64_t block = 4096;

// One unit in the last place of the float32 next to r, inverted; everything from 2^127 on has the spacing there, everything subnormal the least.
inline double inverse_ulp(double r) {
  const auto exponent = static_cast<int64_t>(std::bit_cast<uint64_t>(r) >> 52 & 0x7ff);
  const int64_t kept = std::min<int64_t>(std::max<int64_t>(exponent, 1023 - 126), 1023 + 127);
  return std::bit_cast<double>(static_cast<uint64_t>(2046 + 23 - kept) << 52);
}
inline double bounded(double v) { return v > 0x1p128 ? 0x1p128 : v < -0x1p128 ? -0x1p128 : v; }
inline double error_of(double exact, float v) {
  const double e = bounded(exact);
  return std::fabs(bounded(static_cast<double>(v)) - e) * inverse_ulp(e);
}

struct Report {
  double error;         // the largest, in ulp of float32
  float at;             // where
  float special_at;     // the first input whose result is of another kind than wanted: NaN, or 0 of the other sign
  int64_t specials;     // how many
};

void compare(const float* x, const double* exact, const float* y, int64_t n, Report& report) {
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double e = error_of(exact[i], y[i]);
    worst = e > worst ? e : worst;  // not of NaN
  }
  if (worst <= report.error) return;
  for (int64_t i = 0; i < n; ++i) {
    if (error_of(exact[i], y[i]) == worst) report.at = x[i];
  }
  report.error = worst;
}

// NaN where the wanted result is none, or the reverse; another sign of zero. Infinities are within the error or have one of 2^24 ulp.
void compare_kinds(const float* x, const float* wanted, const float* y, int64_t n, Report& report) {
  int64_t count = 0;
  auto differs = [&](int64_t i) {
    const bool nan = y[i] != y[i], wanted_nan = wanted[i] != wanted[i];
    const uint32_t a = std::bit_cast<uint32_t>(y[i]), b = std::bit_cast<uint32_t>(wanted[i]);
    return (nan != wanted_nan) | (((a << 1) == 0) & ((b << 1) == 0) & (a != b));
  };
  for (int64_t i = 0; i < n; ++i) count += differs(i);
  if (count != 0 && report.specials == 0) {
    for (int64_t i = n; i-- > 0;) {
      if (differs(i)) report.special_at = x[i];
    }
  }
  report.specials += count;
}

struct Way {
  const char* name;
  const kernels::BlockOps* ops;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> list = [] {
    std::vector<Way> w{{"portable", &kernels::block_ops_portable}};
    if (backend::cpu::isa() >= backend::cpu::Isa::avx2) w.push_back({"avx2", &kernels::block_ops_avx2});
    if (backend::cpu::isa() >= backend::cpu::Isa::avx512) w.push_back({"avx512", &kernels::block_ops_avx512});
    return w;
  }();
  return list;
}

}  // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT int ulp_ways() { return static_cast<int>(ways().size()); }
EXPORT const char* ulp_way(int k) { return ways()[static_cast<size_t>(k)].name; }

// d[i] = name(x[i]) as the kernels of one instruction set compute it; false for an unknown name.
EXPORT bool ulp_compute(const char* name, int way, const float* x, float* d, int64_t n) {
  const kernels::BlockOps& ops = *ways()[static_cast<size_t>(way)].ops;
  static constexpr float one = 1;
  if (std::string_view(name) == "reciprocal") {
    const kernels::BlockArgument in[2] = {{&one, true}, {x, false}};
    ops.map_f32(ir::Op::div, d, in, n);
    return true;
  }
  const auto op = ir::op_from_name(name);
  if (!op || !ir::is_map(*op) || ir::arity_of(*op) != 1) return false;
  const kernels::BlockArgument in{x, false};
  ops.map_f32(*op, d, &in, n);
  return true;
}

// Compares `given` results, the first of which says what kind is wanted, and those of the kernels of the instruction sets from `first_way` on. Adds to
// given_reports and way_reports, one each. False for an unknown name.
EXPORT bool ulp_walk(const char* name, const float* x, int64_t n, const float* const* given, int given_count, Report* given_reports, int first_way, Report* way_reports) {
  const ulp::Reference reference = ulp::reference_of(name);
  if (reference == nullptr) return false;
  static double exact[block];
  static float y[block];
  for (int64_t start = 0; start < n; start += block) {
    const int64_t count = std::min(block, n - start);
    const float* at = x + start;
    reference(at, exact, count);
    for (int k = 0; k < given_count; ++k) {
      compare(at, exact, given[k] + start, count, given_reports[k]);
      if (k > 0) compare_kinds(at, given[0] + start, given[k] + start, count, given_reports[k]);
    }
    for (int way = first_way; way < ulp_ways(); ++way) {
      if (!ulp_compute(name, way, at, y, count)) return false;
      compare(at, exact, y, count, way_reports[way]);
      if (given_count > 0) compare_kinds(at, given[0] + start, y, count, way_reports[way]);
    }
  }
  return true;
}
}
