#include "backend/cpu/kernels/scan/run/block_scan.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ir/half.h"

namespace ingot::kernels {

namespace {

struct Sum {
  static double of(double a, double b) { return a + b; }
  static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
};
struct Product {
  static double of(double a, double b) { return a * b; }
  static int64_t of(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
};
// A NaN stays.
struct Greatest {
  template <class Number>
  static Number of(Number a, Number b) {
    return static_cast<int>(b > a) | static_cast<int>(b != b) ? b : a;
  }
};
struct Least {
  template <class Number>
  static Number of(Number a, Number b) {
    return static_cast<int>(b < a) | static_cast<int>(b != b) ? b : a;
  }
};
struct LogSumExp {
  static double of(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    const double m = std::max(a, b);
    return std::isinf(m) ? m : m + std::log1p(std::exp(std::min(a, b) - m));
  }
};

// A bfloat16 in memory.
struct Bf16 {
  uint16_t bits;
  explicit Bf16(double v) : bits(ir::float_to_bf16(static_cast<float>(v))) {}
  explicit operator double() const { return static_cast<double>(ir::bf16_to_float(bits)); }
};

template <class T>
using NumberOf = std::conditional_t<std::is_same_v<T, int64_t>, int64_t, double>;

// So many lines, in registers.
template <class Op, int lines, class T>
void scan_lines(const ScanBlock& b, int64_t line, int64_t begin, NumberOf<T>* totals) {
  using Number = NumberOf<T>;
  T* to = static_cast<T*>(b.to) + line * b.to_line + begin * b.to_step;
  const T* from = static_cast<const T*>(b.from) + line * b.from_line + begin * b.from_step;
  Number total[lines];
#pragma GCC unroll 4
  for (int l = 0; l < lines; ++l) total[l] = totals[line + l];
  for (int64_t i = begin; i < b.length; ++i, to += b.to_step, from += b.from_step) {
#pragma GCC unroll 4
    for (int l = 0; l < lines; ++l) total[l] = Op::of(total[l], static_cast<Number>(from[l * b.from_line]));
#pragma GCC unroll 4
    for (int l = 0; l < lines; ++l) to[l * b.to_line] = static_cast<T>(total[l]);
  }
#pragma GCC unroll 4
  for (int l = 0; l < lines; ++l) totals[line + l] = total[l];
}

// Lines side by side: a step of all of them is one loop.
template <class Op, class T>
void scan_adjacent(const ScanBlock& b, int64_t begin, NumberOf<T>* __restrict totals) {
  T* to = static_cast<T*>(b.to) + begin * b.to_step;
  const T* from = static_cast<const T*>(b.from) + begin * b.from_step;
  for (int64_t i = begin; i < b.length; ++i, to += b.to_step, from += b.from_step) {
    for (int64_t l = 0; l < b.lines; ++l) {
      totals[l] = Op::of(totals[l], static_cast<NumberOf<T>>(from[l]));
    }
    for (int64_t l = 0; l < b.lines; ++l) to[l] = static_cast<T>(totals[l]);
  }
}

template <class Op, class T>
void scan(const ScanBlock& b, void* so_far, bool first) {
  using Number = NumberOf<T>;
  auto* totals = static_cast<Number*>(so_far);
  for (int64_t l = 0; first && l < b.lines; ++l) {
    totals[l] = static_cast<Number>(static_cast<const T*>(b.from)[l * b.from_line]);
    if constexpr (std::is_same_v<Op, Sum>) totals[l] = totals[l] + Number{};  // -0.0 + 0 is 0.0
    static_cast<T*>(b.to)[l * b.to_line] = static_cast<T>(totals[l]);
  }
  if (b.from_line == 1 && b.to_line == 1 && b.lines > 4) return scan_adjacent<Op, T>(b, first, totals);
  int64_t line = 0;
  for (; line + 4 <= b.lines; line += 4) scan_lines<Op, 4, T>(b, line, first, totals);
  for (; line < b.lines; ++line) scan_lines<Op, 1, T>(b, line, first, totals);
}

template <class T>
void scan_of(ScanArgs::Kind kind, const ScanBlock& b, void* totals, bool first) {
  switch (kind) {
    case ScanArgs::Kind::sum: return scan<Sum, T>(b, totals, first);
    case ScanArgs::Kind::prod: return scan<Product, T>(b, totals, first);
    case ScanArgs::Kind::max: return scan<Greatest, T>(b, totals, first);
    case ScanArgs::Kind::min: return scan<Least, T>(b, totals, first);
    case ScanArgs::Kind::logsumexp:
      if constexpr (!std::is_integral_v<T>) return scan<LogSumExp, T>(b, totals, first);
  }
}

}  // namespace

void scan_bf16(ScanArgs::Kind kind, const ScanBlock& b, void* totals, bool first) { scan_of<Bf16>(kind, b, totals, first); }

void scan_block(ScanArgs::Kind kind, Class c, const ScanBlock& b, void* totals, bool first) {
  switch (c) {
    case Class::f32: return scan_of<float>(kind, b, totals, first);
    case Class::f64: return scan_of<double>(kind, b, totals, first);
    default: return scan_of<int64_t>(kind, b, totals, first);
  }
}

}  // namespace ingot::kernels
