#include "ops/windows.h"

#include <algorithm>

#include "base/error.h"
#include "ir/compose_nodes.h"

namespace ingot::ops {

using ir::AffineMap;

Numbers spread(Numbers given, size_t axes, const char* what) {
  if (given.size() == 1) given = Numbers(axes, given[0]);  // not assign(), whose number may not be one of its own
  if (given.size() != axes) fail(Code::invalid_input, "{}: {} numbers for {} axes", what, given.size(), axes);
  return given;
}

Value windows_on(const Value& given, const Windows& w, const Dims& counts, const Scalar& fill) {
  const size_t n = w.kernel.size(), lead = given.dims().size() - n;
  Dims before(lead, Dim(0)), after = before;
  bool padded = false;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(std::max<int64_t>(w.before[i], 0));
    after.push_back(w.after[i]);
    padded = padded || w.before[i] > 0 || w.after[i] > 0;
  }
  const Value x = padded ? pad(given, before, after, fill) : given;
  AffineMap map;
  for (size_t i = 0; i < lead; ++i) {
    map.dims.push_back(x.dims()[i]);
    map.axes.push_back({0, {{static_cast<uint32_t>(i), 1}}});
  }
  for (size_t i = 0; i < n; ++i) {
    map.dims.push_back(counts[i]);
    map.axes.push_back({std::max<int64_t>(-w.before[i], 0), {{static_cast<uint32_t>(lead + i), w.stride[i]}, {static_cast<uint32_t>(lead + n + i), w.dilation[i]}}});
  }
  for (int64_t k : w.kernel) map.dims.push_back(k);
  return view(x, std::move(map));
}

Axes last_axes(const Value& x, size_t n) {
  Axes axes;
  for (int64_t i = x.rank() - static_cast<int64_t>(n); i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

}  // namespace ingot::ops
