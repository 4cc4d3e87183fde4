// Pooling: windows of the input are reduced.
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/lowest.h"
#include "ops/windows.h"

namespace ingot::ops {

using namespace ir;

namespace {

struct Pool {
  Windows on;
  Dims counts, after;  // after: padding after each axis, where the last window may reach over it

  // [lead..., spatial...] -> [lead..., windows..., kernel...]
  Value windows(const Value& x, const Scalar& fill) const {
    const size_t n = counts.size();
    Dims in_front(x.dims().size() - n, Dim(0)), behind = in_front;
    Windows inside = on;
    bool padded = false;
    for (size_t i = 0; i < n; ++i) {
      in_front.emplace_back(on.before[i]);
      behind.push_back(after[i]);
      padded = padded || on.before[i] > 0 || !(after[i] == Dim(0));
      inside.before[i] = inside.after[i] = 0;
    }
    return windows_on(padded ? pad(x, in_front, behind, fill) : x, inside, counts, fill);
  }
};

Pool pool_of(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, Numbers dilation, bool ceil_mode) {
  if (x.rank() < static_cast<int64_t>(n) + 1) fail(Code::invalid_input, "pooling: rank {} is below {}", x.rank(), n + 1);
  Pool p;
  p.on.kernel = spread(std::move(kernel), n, "kernel_size");
  p.on.stride = stride.empty() ? p.on.kernel : spread(std::move(stride), n, "stride");
  p.on.dilation = spread(std::move(dilation), n, "dilation");
  p.on.before = p.on.after = spread(std::move(padding), n, "padding");
  require(x.graph(), 1, Check::less_equal, x.dim(-static_cast<Axis>(n) - 1), "the pooled tensor has channels");
  for (size_t i = 0; i < n; ++i) {
    const Dim size = x.dim(static_cast<Axis>(i) - static_cast<Axis>(n));
    p.counts.push_back(p.on.count(i, size));
    p.after.emplace_back(p.on.after[i]);
    if (!ceil_mode || p.on.stride[i] == 1) continue;
    // The last window may reach over the end, but must not start there.
    const Dim padded = size + Dim(p.on.before[i]), s = p.on.stride[i], reach = p.on.reach(i) + 1;
    p.counts[i] = min(ceildiv(padded + Dim(p.on.after[i]) - reach, s) + Dim(1), ceildiv(padded, s));
    p.after[i] = max(p.after[i], (p.counts[i] - Dim(1)) * s + reach - padded);
  }
  return p;
}

constexpr int64_t max_unrolled_places = 25;

int64_t places_of(const Windows& on) {
  int64_t places = 1;
  for (int64_t k : on.kernel) places *= k;
  return places;
}

// Few places in a window: one tensor for each, combined pointwise.
std::vector<Value> each_place(const Value& windows, const Windows& on) {
  std::vector<Value> each;
  for (int64_t place = 0; place < places_of(on); ++place) {
    Value one = windows;
    int64_t rest = place;
    for (size_t i = on.kernel.size(); i-- > 0; rest /= on.kernel[i]) one = take(one, one.rank() - 1, rest % on.kernel[i]);
    each.push_back(one);
  }
  return each;
}

// True if pooling one axis after another reads less than half of the elements: windows overlap.
bool is_cheaper_axis_by_axis(const Windows& on) {
  int64_t by_axis = 0, in_front = 1;
  for (size_t i = 0; i < on.kernel.size(); ++i) {
    by_axis += on.kernel[i] * in_front;
    in_front *= on.stride[i];
  }
  return on.kernel.size() > 1 && 2 * by_axis < places_of(on);
}

Value max_pool(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, Numbers dilation, bool ceil_mode) {
  Pool p = pool_of(x, n, std::move(kernel), std::move(stride), std::move(padding), std::move(dilation), ceil_mode);
  if (is_cheaper_axis_by_axis(p.on)) {
    Value y = x;
    for (size_t i = n; i-- > 0;) {
      auto along = [&](const Numbers& given, int64_t other) {
        Numbers one(n, other);
        one[i] = given[i];
        return one;
      };
      y = max_pool(y, n, along(p.on.kernel, 1), along(p.on.stride, 1), along(p.on.before, 0), along(p.on.dilation, 1), ceil_mode);
    }
    return y;
  }
  const Value windows = p.windows(x, lowest(x.dtype()));
  if (places_of(p.on) > max_unrolled_places) return amax(windows, last_axes(windows, n));
  const std::vector<Value> each = each_place(windows, p.on);
  return std::accumulate(each.begin() + 1, each.end(), each[0],
                         [](const Value& so_far, const Value& one) { return maximum(one, so_far); });  // of equal ones, zeros of two signs, the first
}

// Row-major numbers, within the last axes of a tensor of `dims`, of the elements at these places.
Value flat_place(const std::vector<Value>& places, Dims dims) {  // a copy: new nodes move what a value says of itself
  std::optional<Value> flat;
  for (size_t i = 0; i < places.size(); ++i) flat = flat ? *flat * Operand(dims[dims.size() - places.size() + i]) + places[i] : places[i];
  return *flat;
}

// The axes after `lead + n`, as many numbers along each of which are in `sizes`, as one; and the number along each of the largest element: the first of equal ones, or the last NaN.
std::vector<Value> largest(const Value& windows, size_t n, const Dims& sizes) {
  Dims merged(windows.dims().begin(), windows.dims().end() - static_cast<ptrdiff_t>(n));
  merged.push_back(product(sizes));
  const Value flat = reshape(windows, merged);
  Value rest = reduce("argmax", flat, {-1}, drop);
  if (is_float(flat.dtype())) {
    const Value place = ir::index(flat.graph(), flat.dims(), flat.rank() - 1);
    rest = maximum(rest, amax(select(ir::map(Op::is_nan, {flat}), place, -1), {-1}));  // the reduction gives the first NaN
  }
  std::vector<Value> out(n);
  for (size_t i = n; i-- > 0;) {
    out[i] = i > 0 ? ir::map(Op::mod, {rest, sizes[i]}) : rest;
    if (i > 0) rest = ir::map(Op::floordiv, {rest, sizes[i]});
  }
  return out;
}

// An index along axis `i` of the last n of a tensor of that rank.
Value number_along(Graph& g, const Dim& count, size_t i, size_t n) {
  Dims line(n, Dim(1));
  line[i] = count;
  return ir::index(g, line, static_cast<Axis>(i));
}

// Also where each largest element is.
std::pair<Value, Value> max_pool_with_indices(const Value& x, size_t n, const Numbers& kernel, const Numbers& stride, const Numbers& padding, const Numbers& dilation,
                                              bool ceil_mode) {
  const Pool p = pool_of(x, n, kernel, stride, padding, dilation, ceil_mode);
  std::vector<Value> places = largest(p.windows(x, lowest(x.dtype())), n, Dims(p.on.kernel.begin(), p.on.kernel.end()));
  for (size_t i = 0; i < n; ++i) {
    const Value start = number_along(x.graph(), p.counts[i], i, n) * p.on.stride[i] - p.on.before[i];
    // If all elements are as low as the padding: the first one that is not padding.
    const Value skipped = ir::map(Op::floordiv, {maximum(0 - start, 0) + (p.on.dilation[i] - 1), p.on.dilation[i]});
    places[i] = maximum(start + places[i] * p.on.dilation[i], start + skipped * p.on.dilation[i]);
  }
  return {max_pool(x, n, kernel, stride, padding, dilation, ceil_mode), flat_place(places, x.dims())};
}

Value avg_pool(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  const Numbers given = spread(padding, n, "padding");
  Pool p = pool_of(x, n, std::move(kernel), std::move(stride), std::move(padding), {1}, ceil_mode);
  const bool floats = is_float(x.dtype());
  if (!floats && x.dtype() != DType::i64 && x.dtype() != DType::u8) fail(Code::unsupported, "average pooling of {}", name_of(x.dtype()));
  const Value windows = p.windows(x, 0);
  const int64_t whole = places_of(p.on);
  std::optional<Value> sums;
  if (whole > max_unrolled_places) {
    sums = sum(widened(windows), last_axes(windows, n));
  } else {
    for (const Value& one : each_place(windows, p.on)) sums = sums ? *sums + widened(one) : floats ? widened(one) + 0.0 : one;  // eager begins with 0: of -0.0 alone it is 0.0
  }
  Value y = *sums;
  bool inside = true;
  for (size_t i = 0; i < n; ++i) {
    // Every window has all of its elements: nothing is padded, or padding counts and no window reaches over it.
    inside = inside && (count_include_pad ? p.after[i] == Dim(given[i]) : given[i] == 0 && p.after[i] == Dim(0));
  }
  auto divided = [&](const Operand& by) { return floats ? y / by : ir::map(Op::truncdiv, {y, by}); };
  if (divisor || inside) return cast(divided(divisor.value_or(whole)), x.dtype());
  // The number of elements of each window that count, one axis at a time.
  Graph& g = x.graph();
  std::optional<Value> all;
  for (size_t i = 0; i < n; ++i) {
    const Dim size = x.dim(static_cast<Axis>(i) - static_cast<Axis>(n));
    Dims line{p.counts[i]};
    line.insert(line.end(), n - 1 - i, Dim(1));
    Value start = ir::index(g, line, 0) * p.on.stride[i] - given[i], end = start + p.on.kernel[i];
    Value counted = count_include_pad ? minimum(end, Operand(size + Dim(given[i]))) - start : minimum(end, Operand(size)) - maximum(start, 0);
    all = all ? *all * counted : counted;
  }
  return cast(divided(cast(*all, y.dtype())), x.dtype());
}

// Windows of an axis between i * size / n, rounded down, and (i + 1) * size / n, rounded up. The axis becomes [n, longest].
struct AdaptiveWindows {
  Value elements;
  std::optional<Value> start, length;  // [n, 1...]; none: n divides the size
  std::optional<Value> inside;  // [n, longest, 1...]
};

AdaptiveWindows adaptive_windows(const Value& x, Axis axis, const Dim& n) {
  Graph& g = x.graph();
  const Dim size = x.dim(axis);
  if (n == Dim(1) || mod(size, n) == Dim(0)) {
    Dims split = x.dims();
    split[static_cast<size_t>(axis)] = floordiv(size, n);
    split.insert(split.begin() + axis, n);
    return {reshape(x, split), {}, {}, {}};
  }
  Dim longest = floordiv(size, n) + Dim(2);
  if (size.is_constant() && n.is_constant()) {
    int64_t widest = 0;
    for (int64_t w = 0; w < n.value(); ++w) widest = std::max(widest, ((w + 1) * size.value() + n.value() - 1) / n.value() - w * size.value() / n.value());
    longest = Dim(widest);
  }
  const Value line = ir::index(g, {n, Dim(1)}, 0);
  const Value start = ir::map(Op::floordiv, {line * Operand(size), n}), end = ir::map(Op::floordiv, {(line + 1) * Operand(size) + Operand(n - Dim(1)), n});
  const Value at = start + ir::index(g, {n, longest}, 1);
  auto laid = [&](const Value& v, const Dim& across) {  // next to the axes after it
    Dims dims{n, across};
    dims.insert(dims.end(), static_cast<size_t>(x.rank() - 1 - axis), Dim(1));
    return reshape(v, dims);
  };
  return {gather(x, {axis}, {minimum(at, Operand(size - Dim(1)))}, axis, false), laid(start, Dim(1)), laid(end - start, Dim(1)), laid(at < end, longest)};
}

// The windows of an adaptive pooling as those of a pooling, if they are equal, equidistant and of few elements.
std::optional<Windows> equal_windows(const Value& x, const Dims& sizes) {
  Windows on;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto size = x.dim(static_cast<Axis>(i) - static_cast<Axis>(sizes.size())).constant(), count = sizes[i].constant();
    if (!size || !count || *count < 1 || *size < 1) return std::nullopt;
    auto start = [&](int64_t w) { return w * *size / *count; };
    auto length = [&](int64_t w) { return ((w + 1) * *size + *count - 1) / *count - start(w); };
    const int64_t stride = *count > 1 ? start(1) : *size;
    for (int64_t w = 0; w < *count; ++w) {
      if (start(w) != w * stride || length(w) != length(0)) return std::nullopt;
    }
    on.kernel.push_back(length(0));
    on.stride.push_back(stride);
  }
  const int64_t places = places_of(on);
  return places > 1 && places <= max_unrolled_places ? std::optional(on) : std::nullopt;
}

Value adaptive_avg_pool(Value x, const Dims& sizes) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "adaptive_avg_pool of integers");
  const DType t = x.dtype();
  const Value given = x;
  x = widened(x);
  if (std::all_of(sizes.begin(), sizes.end(), [](const Dim& n) { return n == Dim(1); })) return cast(mean(x, last_axes(x, sizes.size()), keep), t);
  if (const auto on = equal_windows(given, sizes)) return avg_pool(given, sizes.size(), on->kernel, on->stride, {0}, false, true, std::nullopt);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Axis axis = x.rank() - static_cast<Axis>(sizes.size() - i);
    if (x.dim(axis) == sizes[i]) continue;
    const AdaptiveWindows w = adaptive_windows(x, axis, sizes[i]);
    // Elements outside are skipped, not multiplied by 0: they may be infinite.
    x = w.inside ? squeeze(sum(select(*w.inside, w.elements, 0.0), {axis + 1}, keep) / cast(*w.length, x.dtype()), axis + 1) : mean(w.elements, {axis + 1});
  }
  return cast(x, t);
}

// The largest element of each window, and where it is.
std::pair<Value, Value> adaptive_max_pool(const Value& x, const Dims& sizes) {
  const size_t n = sizes.size();
  const auto lead = static_cast<Axis>(x.dims().size() - n);
  const Scalar low = lowest(x.dtype());
  Value maxima = x, all = x;  // all: [lead..., n_0, longest_0, n_1, longest_1...]
  std::vector<std::optional<Value>> starts(n);
  for (size_t i = n; i-- > 0;) {
    const Axis axis = lead + static_cast<Axis>(i);
    auto inside = [&](const AdaptiveWindows& w) { return w.inside ? select(*w.inside, w.elements, low) : w.elements; };
    maxima = amax(inside(adaptive_windows(maxima, axis, sizes[i])), {axis + 1});
    const AdaptiveWindows w = adaptive_windows(all, axis, sizes[i]);
    all = inside(w);
    Dims line(n, Dim(1));
    line[i] = sizes[i];
    starts[i] = w.start ? reshape(*w.start, line) : number_along(x.graph(), sizes[i], i, n) * Operand(floordiv(x.dim(axis), sizes[i]));
  }
  Axes order;
  Dims longest;
  for (Axis a = 0; a < lead; ++a) order.push_back(a);
  for (size_t behind : {0, 1}) {
    for (size_t i = 0; i < n; ++i) order.push_back(lead + static_cast<Axis>(2 * i + behind));
  }
  for (size_t i = 0; i < n; ++i) longest.push_back(all.dim(lead + static_cast<Axis>(2 * i + 1)));
  std::vector<Value> places = largest(permute(all, order), n, longest);
  for (size_t i = 0; i < n; ++i) places[i] = places[i] + *starts[i];
  return {maxima, flat_place(places, x.dims())};
}

// Windows that a random number for each plane and axis spreads. The numbers are in the order of the axes; of an image in the other one. All is rounded to their type.
std::pair<Value, Value> fractional_max_pool(const Value& x, const Numbers& kernel, const Numbers& counts, const Value& random) {
  Graph& g = x.graph();
  const size_t n = kernel.size();
  const auto lead = x.rank() - static_cast<Axis>(n);
  auto behind_planes = [&](const Dims& behind) {
    Dims dims(x.dims().begin(), x.dims().begin() + lead);
    dims.insert(dims.end(), behind.begin(), behind.end());
    return dims;
  };
  auto rounded = [&](const Value& v) { return widened(cast(v, random.dtype())); };
  auto whole = [](const Value& v) { return cast(v, DType::i64); };
  std::vector<Value> places;  // [planes..., windows..., kernel...], each along two of these axes
  for (size_t i = 0; i < n; ++i) {
    const Dim room = x.dim(lead + static_cast<Axis>(i)) - Dim(kernel[i]);
    require(g, 0, Check::less_equal, room, "the pooled axis has room for a window");
    const Value last = literal(g, room, DType::i64), number = widened(unsqueeze(take(random, -1, Dim(n == 2 ? 1 - static_cast<int64_t>(i) : static_cast<int64_t>(i))), -1));
    Value start = expand(last, behind_planes({counts[i]}));
    if (counts[i] > 1) {
      const Value at = ir::index(g, {Dim(counts[i])}, 0), step = rounded(rounded(last) / static_cast<double>(counts[i] - 1));
      start = select(at < counts[i] - 1, whole(rounded(rounded(rounded(at) + number) * step)) - whole(rounded(number * step)), start);
    }
    Dims line(2 * n, Dim(1));
    line[i] = counts[i];
    places.push_back(reshape(start, behind_planes(line)) + number_along(g, kernel[i], n + i, 2 * n));
  }
  const Dims result(counts.begin(), counts.end()), taps(kernel.begin(), kernel.end()), image(x.dims().begin() + lead, x.dims().end());
  const Value at = flat_place(places, x.dims());
  const Value windows = take_along(reshape(x, behind_planes({product(image)})), -1, reshape(at, behind_planes({product(result) * product(taps)})));
  auto by_window = [&](const Value& v) { return reshape(v, behind_planes({product(result), product(taps)})); };
  const Value largest_of_each = reduce("argmax", by_window(windows), {-1}, keep);
  auto chosen = [&](const Value& v) { return reshape(take_along(by_window(v), -1, largest_of_each), behind_planes(result)); };
  return {chosen(windows), chosen(at)};
}

// Elements go back to where a max_pool took them from; zeros elsewhere.
Value max_unpool(const Value& x, const Value& indices, const Dims& sizes) {
  const auto n = static_cast<ptrdiff_t>(sizes.size());
  Dims lead(x.dims().begin(), x.dims().end() - n), flat = lead, dims = lead, all = lead;
  flat.push_back(product(Dims(x.dims().end() - n, x.dims().end())));
  all.push_back(product(sizes));
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  return reshape(scatter_along(full(x.graph(), all, 0, x.dtype()), static_cast<Axis>(lead.size()), reshape(indices, flat), reshape(x, flat), "set"), dims);
}

const Definition pooling_rows[] = {
    {"max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False)", Types::only_floats,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 1, k, s, p, d, up); }},
    {"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False)", Types::numbers,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 2, k, s, p, d, up); }},
    {"max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False)", Types::numbers,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 3, k, s, p, d, up); }},
    {"avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads) { return avg_pool(x, 1, k, s, p, up, pads, std::nullopt); }},
    {"avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads, std::optional<int64_t> divisor) { return avg_pool(x, 2, k, s, p, up, pads, divisor); }},
    {"avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads, std::optional<int64_t> divisor) { return avg_pool(x, 3, k, s, p, up, pads, divisor); }},
    {"max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False)", Types::numbers,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool_with_indices(x, 1, k, s, p, d, up); }},
    {"max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False)", Types::numbers,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool_with_indices(x, 2, k, s, p, d, up); }},
    {"max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False)", Types::numbers,
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool_with_indices(x, 3, k, s, p, d, up); }},
    {"fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor random_samples)", Types::same,
     [](Value x, Numbers k, Numbers counts, Value random) { return fractional_max_pool(x, spread(k, 2, "kernel_size"), spread(counts, 2, "output_size"), random); }},
    {"fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor random_samples)", Types::same,
     [](Value x, Numbers k, Numbers counts, Value random) { return fractional_max_pool(x, spread(k, 3, "kernel_size"), spread(counts, 3, "output_size"), random); }},
    {"max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size)", Types::each, [](Value x, Value at, Dims sizes) { return max_unpool(x, at, sizes); }},
    {"max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding)", Types::each,
     [](Value x, Value at, Dims sizes, Numbers, Numbers) { return max_unpool(x, at, sizes); }},
    {"adaptive_avg_pool1d(Tensor self, int[1] output_size)", [](Value x, Dims sizes) { return adaptive_avg_pool(x, sizes); }},
    {"{adaptive_avg_pool2d,_adaptive_avg_pool2d}(Tensor self, SymInt[2] output_size)", [](Value x, Dims sizes) { return adaptive_avg_pool(x, sizes); }},
    {"{adaptive_avg_pool3d,_adaptive_avg_pool3d}(Tensor self, SymInt[3] output_size)", [](Value x, Dims sizes) { return adaptive_avg_pool(x, sizes); }},
    {"adaptive_max_pool{1d,2d,3d}(Tensor self, int[{1,2,3}] output_size)", Types::only_floats, [](Value x, Dims sizes) { return adaptive_max_pool(x, sizes); }},
};

}  // namespace

std::span<const Definition> pooling_definitions() { return pooling_rows; }

}  // namespace ingot::ops
