// Elements of an image at given places, in the interpreter.
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/evaluate.h"

namespace ingot::ir {

namespace {

// An axis of x, and what is outside it.
struct SampledAxis {
  double size;
  const std::string& outside;
  bool corners;

  // A number between -1 and 1 as a place.
  double place(double at) const { return corners ? (at + 1) * ((size - 1) / 2) : (at + 1) * (size / 2) - 0.5; }

  // The place that is read for one outside; with zeros it stays there.
  double inside(double at) const {
    if (outside == "zeros") return at;
    if (outside == "reflection") {
      const double low = corners ? 0 : -0.5, span = corners ? std::max(size - 1, 1.0) : size;
      at = std::fmod(std::fabs(at - low), 2 * span);
      at = std::min(at, 2 * span - at) + low;
    }
    return std::clamp(at, 0.0, size - 1);  // a NaN stays one
  }
};

// The elements of one axis that a place reads.
struct Taps {
  std::array<double, 4> at{}, weight{};
  size_t count = 0;

  void add(double where, double by) {
    at[count] = where;
    weight[count++] = by;
  }
};

Taps taps_of(const std::string& mode, const SampledAxis& axis, double given) {
  Taps out;
  const double at = axis.place(given);
  if (mode == "nearest") {
    out.add(std::nearbyint(axis.inside(at)), 1);
  } else if (mode == "linear") {
    const double in = axis.inside(at), low = std::floor(in);
    out.add(low, low + 1 - in);
    out.add(low + 1, in - low);
  } else {
    constexpr double a = -0.75;
    const double low = std::floor(at), t = at - low;
    auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    const double weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
    for (int k = 0; k < 4; ++k) out.add(axis.inside(low + k - 1), weights[k]);
  }
  return out;
}

}  // namespace

void evaluate_grid_sample(const Attributes& a, const Data& x, const Data& grid, Data& out) {
  const size_t n = x.dims.size() - 2;
  const std::string& mode = a.string("mode");
  const int64_t channels = x.dims[1];
  int64_t points = 1, plane = 1;  // of an image
  for (size_t d = 1; d + 1 < grid.dims.size(); ++d) points *= grid.dims[d];
  for (size_t d = 2; d < x.dims.size(); ++d) plane *= x.dims[d];
  for (int64_t image = 0; image < out.dims[0]; ++image) {
    for (int64_t point = 0; point < points; ++point) {
      std::vector<Taps> taps;
      for (size_t i = 0; i < n; ++i) {
        const SampledAxis axis{static_cast<double>(x.dims[2 + i]), a.string("outside"), a.boolean("corners")};
        taps.push_back(taps_of(mode, axis, grid.f[static_cast<size_t>(image * points + point) * n + n - 1 - i]));
      }
      for (int64_t channel = 0; channel < channels; ++channel) {
        double sum = 0;
        std::vector<size_t> k(n, 0);
        for (bool more = true; more;) {
          double weight = 1;
          bool inside = true;
          int64_t at = 0;
          for (size_t i = 0; i < n; ++i) {
            const double here = taps[i].at[k[i]];
            weight *= taps[i].weight[k[i]];
            inside = inside && here >= 0 && here <= static_cast<double>(x.dims[2 + i] - 1);
            at = at * x.dims[2 + i] + (inside ? static_cast<int64_t>(here) : 0);
          }
          sum += weight * (inside ? x.f[static_cast<size_t>((image * channels + channel) * plane + at)] : 0.0);
          more = false;
          for (size_t i = n; i-- > 0 && !more;) {
            more = ++k[i] < taps[i].count;
            if (!more) k[i] = 0;
          }
        }
        out.f[static_cast<size_t>(a.boolean("channels_last") ? (image * points + point) * channels + channel : (image * channels + channel) * points + point)] = sum;
      }
    }
  }
}

}  // namespace ingot::ir
