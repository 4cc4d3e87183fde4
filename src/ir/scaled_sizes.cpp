#include "ir/scaled_sizes.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace ingot::ir {

namespace {

struct Fraction {
  int64_t top, bottom;
};

// The fraction that float64 rounds to this factor, by the least denominator.
std::optional<Fraction> near_fraction(double factor) {
  constexpr int64_t max_bottom = 4096, max_top = 1'000'000'000;
  for (int64_t bottom = 1; bottom <= max_bottom && factor > 0; ++bottom) {
    const double top = std::round(factor * static_cast<double>(bottom));
    if (!(top < max_top)) return std::nullopt;
    if (top > 0 && top / static_cast<double>(bottom) == factor) return Fraction{static_cast<int64_t>(top), bottom};
  }
  return std::nullopt;
}

// 1 for sizes whose product is whole by the fraction and cut by float64, 0 for other sizes with a whole product. The factor is below the fraction by so little that float64 rounds products
// up to a limit between two powers of two to the whole number, and cuts those between the limit and the upper power.
Dim is_cut(const Dim& size, double factor, const Fraction& by, Range range) {
  constexpr int64_t max_product = int64_t{1} << 40;
  auto cut = [&](int64_t k) { return std::floor(static_cast<double>(k * by.bottom) * factor) < static_cast<double>(k * by.top); };
  const int64_t last = std::min(range.max / by.bottom, max_product / by.top);
  Dim cuts = 0;
  for (int64_t k = std::max<int64_t>(range.min / by.bottom, 1), end = 0; k <= last; k = end) {
    const auto product = static_cast<uint64_t>(k * by.top);
    const auto below_power = static_cast<int64_t>((std::bit_ceil(product) - 1) / static_cast<uint64_t>(by.top));
    end = std::has_single_bit(product) ? k + 1 : std::min(last, below_power) + 1;
    int64_t first = k, beyond = end;
    while (first < beyond) {
      const int64_t middle = first + (beyond - first) / 2;
      if (cut(middle)) {
        beyond = middle;
      } else {
        first = middle + 1;
      }
    }
    if (first < end) cuts = max(cuts, min(size - Dim(first * by.bottom - 1), Dim((end - 1) * by.bottom + 1) - size));
  }
  return min(cuts, 1);
}

}  // namespace

std::optional<Dim> scaled(const Dim& size, double factor, Range range) {
  if (auto made = scaled(size, factor)) return made;
  const auto by = near_fraction(factor);
  if (!by) return std::nullopt;
  return floordiv(size * Dim(by->top) - is_cut(size, factor, *by, range), by->bottom);
}

}  // namespace ingot::ir
