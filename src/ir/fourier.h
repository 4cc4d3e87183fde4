// What a Fourier transform of one length needs: the stages and roots of unity that fourier.inc computes with. No loops over data here.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ingot::ir {

// The primitives fourier, fourier_of_real and fourier_to_real.
enum class FourierKind : uint8_t { pair, of_real, to_real };
// Axes of one transform: as many as a library of the GPU (cuFFT) has in one plan.
inline constexpr int64_t max_fourier_axes = 3;

// Radices of the stages. A length with a larger prime factor is done by Bluestein's algorithm.
inline constexpr int max_radix = 31;

// cos and sin of 2 pi k / n. The angle is brought into an eighth of the circle while it is a whole number, so that both are exact to the last digits.
inline std::pair<double, double> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  int64_t x = 4 * k;  // in 1 / (4 n) of the circle
  double up = 1, right = 1;
  if (x > 2 * n) x = 4 * n - x, up = -1;
  if (x > n) x = 2 * n - x, right = -1;
  const bool swapped = 2 * x > n;
  if (swapped) x = n - x;
  const double angle = M_PI * static_cast<double>(x) / (2 * static_cast<double>(n));
  const double c = swapped ? std::sin(angle) : std::cos(angle), s = swapped ? std::cos(angle) : std::sin(angle);
  return {right * c, up * s};
}

// The radices of the stages of n elements, in order; none if n has a prime factor that is too large.
inline std::optional<std::vector<int>> radices_of(int64_t n) {
  std::vector<int> out;
  auto take = [&](int r) {
    for (; n % r == 0; n /= r) out.push_back(r);
  };
  for (int r : {4, 2, 3, 5}) take(r);
  for (int r = 7; r <= max_radix; r += 2) take(r);
  return n == 1 ? std::optional(out) : std::nullopt;
}
// The power of two that Bluestein's algorithm computes with.
inline int64_t power_for(int64_t n) {
  int64_t power = 1;
  while (power < 2 * n - 1) power *= 2;
  return power;
}

// Complex numbers as two arrays.
template <class T>
struct Pairs {
  std::vector<T> re, im;
  void add(double a, double b) {
    re.push_back(static_cast<T>(a));
    im.push_back(static_cast<T>(b));
  }
};

// A complex transform, forward and without a factor, of `length` elements: stages of Stockham's algorithm, or three transforms of a power of two.
template <class T>
struct FourierPlan {
  struct Stage {
    int radix;
    size_t roots;   // where its roots begin: exp(-2 pi i p k / n) of its n = radix * parts, at [(k - 1) * parts + p]
    size_t circle;  // where cos and sin of 2 pi k / radix begin, for radices without code of their own
  };
  int64_t length = 1;
  std::vector<Stage> stages;
  Pairs<T> roots, circle;
  // Bluestein: element k is the chirp's times the convolution of the elements, times the chirp's, with the conjugate chirp.
  std::vector<FourierPlan> power;  // none, or the transform of a power of two
  Pairs<T> chirp, filter;          // exp(-pi i k k / length); the conjugate chirp's transform over its length

  FourierPlan() = default;
  explicit FourierPlan(int64_t n) : length(n) {
    const auto radices = radices_of(n);
    if (!radices) {
      convolve();
      return;
    }
    for (int r : *radices) {
      const int64_t parts = n / r;
      stages.push_back({r, roots.re.size(), circle.re.size()});
      for (int k = 1; k < r; ++k) {
        for (int64_t p = 0; p < parts; ++p) {
          const auto [c, s] = root_of_unity(p * k, n);
          roots.add(c, -s);
        }
      }
      for (int k = 0; r > 5 && k < r; ++k) {
        const auto [c, s] = root_of_unity(k, r);
        circle.add(c, s);
      }
      n = parts;
    }
  }

  // Elements that fourier.inc's arrays have.
  int64_t room() const { return power.empty() ? length : power[0].length; }

 private:
  // The filter is computed in double, whatever T is.
  void convolve() {
    const int64_t n = power_for(length);
    power.emplace_back(n);
    std::vector<double> re(static_cast<size_t>(n)), im(re);
    for (int64_t k = 0; k < length; ++k) {
      const auto [c, s] = root_of_unity(k * k % (2 * length), 2 * length);
      chirp.add(c, -s);
      for (auto at : {static_cast<size_t>(k), static_cast<size_t>((n - k) % n)}) re[at] = c, im[at] = s;
    }
    transform_of_power(re, im);
    for (size_t k = 0; k < re.size(); ++k) filter.add(re[k] / static_cast<double>(n), im[k] / static_cast<double>(n));
  }
  // Once for a length, so it is the shortest code: halves, one after another.
  static void transform_of_power(std::vector<double>& re, std::vector<double>& im) {
    const auto n = static_cast<int64_t>(re.size());
    std::vector<double> to_re(re.size()), to_im(re.size());
    for (int64_t parts = n / 2, step = 1; parts > 0; parts /= 2, step *= 2) {
      for (int64_t p = 0; p < parts; ++p) {
        const auto [c, s] = root_of_unity(p, 2 * parts);
        for (int64_t q = 0; q < step; ++q) {
          const auto a = static_cast<size_t>(q + step * p), b = static_cast<size_t>(q + step * (p + parts)), to = static_cast<size_t>(q + step * 2 * p);
          const double x = re[a] - re[b], y = im[a] - im[b];
          to_re[to] = re[a] + re[b], to_im[to] = im[a] + im[b];
          to_re[to + static_cast<size_t>(step)] = x * c + y * s, to_im[to + static_cast<size_t>(step)] = y * c - x * s;
        }
      }
      re.swap(to_re), im.swap(to_im);
    }
  }
};

// A transform of a kind and a length. Real numbers of an even length are pairs of neighbours, transformed as half as many complex numbers.
template <class T>
struct FourierTables {
  FourierKind kind = FourierKind::pair;
  int64_t length = 1;
  FourierPlan<T> plan;
  Pairs<T> halves;  // exp(-2 pi i k / length) for the elements of a half, where neighbours are pairs

  FourierTables(FourierKind of, int64_t n) : kind(of), length(n), plan(of != FourierKind::pair && n % 2 == 0 ? n / 2 : n) {
    for (int64_t k = 0; neighbours() && k <= n / 2; ++k) {
      const auto [c, s] = root_of_unity(k, n);
      halves.add(c, -s);
    }
  }
  bool neighbours() const { return plan.length != length; }
  // Complex elements that go in and come out.
  int64_t given() const { return kind == FourierKind::to_real ? length / 2 + 1 : length; }
  int64_t made() const { return kind == FourierKind::of_real ? length / 2 + 1 : length; }
  int64_t room() const { return std::max(plan.room(), length / 2 + 1); }
};

}  // namespace ingot::ir
