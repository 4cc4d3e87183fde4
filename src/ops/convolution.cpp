// Convolutions and pooling: the windows of the input are one view; a matmul or a reduction reads it.
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

using Numbers = std::vector<int64_t>;

// One entry for each axis; a single number stands for all axes.
Numbers spread(Numbers given, size_t axes, const char* what) {
  if (given.size() == 1) given.assign(axes, given[0]);
  if (given.size() != axes) fail(Code::invalid_input, "{}: {} numbers for {} axes", what, given.size(), axes);
  return given;
}

// Where the windows on the last axes of a tensor are.
struct Windows {
  Numbers kernel, stride, dilation, before, after;

  int64_t reach(size_t i) const { return dilation[i] * (kernel[i] - 1); }
  // How many windows fit on an axis.
  Dim count(size_t i, const Dim& size) const { return floordiv(size + Dim(before[i] + after[i] - reach(i) - 1), stride[i]) + Dim(1); }
};

// [lead..., spatial...] -> [lead..., windows..., kernel...]; `fill` outside of the tensor.
Value windows_on(const Value& given, const Windows& w, const Dims& counts, const Scalar& fill) {
  const size_t n = w.kernel.size(), lead = given.dims().size() - n;
  Dims before(lead, Dim(0)), after = before;
  bool padded = false;
  for (size_t i = 0; i < n; ++i) {
    before.push_back(w.before[i]);
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
    map.axes.push_back({0, {{static_cast<uint32_t>(lead + i), w.stride[i]}, {static_cast<uint32_t>(lead + n + i), w.dilation[i]}}});
  }
  for (int64_t k : w.kernel) map.dims.push_back(k);
  return view(x, std::move(map));
}

Axes last_axes(const Value& x, size_t n) {
  Axes axes;
  for (int64_t i = x.rank() - static_cast<int64_t>(n); i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

// x [N, C, spatial...], w [O, C / groups, kernel...]; `y` of the same element type.
Value convolve(const Value& x, const Value& w, const Windows& on, int64_t groups) {
  const size_t n = on.kernel.size();
  const Dim batch = x.dim(0), each = w.dim(1), out = floordiv(w.dim(0), groups);
  Dims counts, kernel(w.dims().begin() + 2, w.dims().end());
  for (size_t i = 0; i < n; ++i) counts.push_back(on.count(i, x.dims()[2 + i]));
  if (each == Dim(1) && out == Dim(1)) {  // a channel by itself: a weighted sum over its windows
    Value windows = windows_on(widened(x), on, counts, 0);
    Dims line{Dim(1), w.dim(0)};
    line.insert(line.end(), n, Dim(1));
    line.insert(line.end(), kernel.begin(), kernel.end());
    return cast(sum(windows * reshape(widened(w), line), last_axes(windows, n)), x.dtype());
  }
  // [N, G, windows..., kernel..., C / G] as the rows of a matmul, the weights as its columns: the channels of a place are neighbours, unless they are few.
  Dims split{batch, Dim(groups), each};
  split.insert(split.end(), x.dims().begin() + 2, x.dims().end());
  Value windows = windows_on(reshape(x, split), on, counts, 0);
  Axes order{0, 1};
  for (size_t i = 0; i < n; ++i) order.push_back(static_cast<Axis>(3 + i));
  const bool few = each.constant().value_or(8) < 8;
  Axes of_weights{0};
  if (few) order.push_back(2), of_weights.push_back(1);
  for (size_t i = 0; i < n; ++i) {
    order.push_back(static_cast<Axis>(3 + n + i));
    of_weights.push_back(static_cast<Axis>(2 + i));
  }
  if (!few) order.push_back(2), of_weights.push_back(1);
  const Value columns = permute(w, of_weights);
  const Dim rows = product(counts), inner = each * product(kernel);
  Value y;
  if (groups == 1) {
    y = matmul(reshape(permute(windows, order), {batch, rows, inner}), transpose(reshape(columns, {w.dim(0), inner}), 0, 1));
  } else {
    y = matmul(reshape(permute(windows, order), {batch, Dim(groups), rows, inner}), transpose(reshape(columns, {Dim(groups), out, inner}), 1, 2));
  }
  Dims result{batch, w.dim(0)};
  result.insert(result.end(), counts.begin(), counts.end());
  return reshape(transpose(y, -2, -1), result);
}

// A transposed convolution is one over the input with zeros between its elements, the kernel turned around.
Value convolve_transposed(const Value& x, const Value& w, Windows on, const Numbers& more, int64_t groups) {
  const size_t n = on.kernel.size();
  Dims wide{x.dim(0), x.dim(1)};
  AffineMap apart;
  for (uint32_t i = 0; i < 2; ++i) apart.axes.push_back({0, {{i, 1}}});
  for (size_t i = 0; i < n; ++i) {
    const Dim& size = x.dims()[2 + i];
    require(x.graph(), 1, ir::Check::less_equal, size, "a transposed convolution has elements to start from");
    wide.push_back((size - Dim(1)) * Dim(on.stride[i]) + Dim(1));
    apart.axes.push_back({0, {{static_cast<uint32_t>(2 + i), on.stride[i]}}});
  }
  apart.dims = x.dims();
  Value spaced = wide == x.dims() ? x : update(full(x.graph(), wide, 0, x.dtype()), apart, x);
  Axes spatial;
  for (size_t i = 0; i < n; ++i) {
    const int64_t padding = on.before[i];
    on.before[i] = on.reach(i) - padding;
    on.after[i] = on.reach(i) - padding + more[i];
    on.stride[i] = 1;
    spatial.push_back(static_cast<Axis>(3 + i));
    if (on.before[i] < 0) {  // padding cuts more than the kernel reaches
      spaced = slice(spaced, static_cast<Axis>(2 + i), Dim(-on.before[i]), std::nullopt, 1);
      on.before[i] = 0;
    }
    if (on.after[i] < 0) {
      spaced = slice(spaced, static_cast<Axis>(2 + i), Dim(0), spaced.dims()[2 + i] + Dim(on.after[i]), 1);
      on.after[i] = 0;
    }
  }
  // [C, O / G, kernel...] -> [O, C / G, kernel...]
  const Dim each = floordiv(w.dim(0), groups);
  Dims split{Dim(groups), each, w.dim(1)}, merged{w.dim(1) * Dim(groups), each};
  split.insert(split.end(), w.dims().begin() + 2, w.dims().end());
  merged.insert(merged.end(), w.dims().begin() + 2, w.dims().end());
  return convolve(spaced, reshape(transpose(flip(reshape(w, split), spatial), 1, 2), merged), on, groups);
}

struct Convolution {
  Numbers stride, dilation, before, after;
  int64_t groups = 1;
  bool transposed = false;
  Numbers more = {0};
};

Value convolution(Value x, const Value& w, const std::optional<Value>& bias, Convolution c) {
  if (w.rank() < 3) fail(Code::invalid_input, "convolution: a weight of rank {}", w.rank());
  const size_t n = static_cast<size_t>(w.rank()) - 2;
  const bool alone = x.rank() == w.rank() - 1;  // one image without a batch
  if (alone) x = unsqueeze(x, 0);
  Windows on;
  for (size_t i = 0; i < n; ++i) {
    auto size = w.dims()[2 + i].constant();
    if (!size) fail(Code::unsupported, "convolution: a kernel of dynamic size");
    on.kernel.push_back(*size);
  }
  on.stride = spread(c.stride, n, "stride");
  on.dilation = spread(c.dilation, n, "dilation");
  on.before = spread(c.before, n, "padding");
  on.after = spread(c.after, n, "padding");
  if (!c.transposed && !(w.dim(1) * Dim(c.groups) == x.dim(1))) {
    require(x.graph(), w.dim(1) * Dim(c.groups), ir::Check::equal, x.dim(1), "the input has the channels of the weight");
  }
  Value y = c.transposed ? convolve_transposed(x, w, on, spread(c.more, n, "output_padding"), c.groups) : convolve(x, w, on, c.groups);
  if (bias) {
    Dims line{bias->dim(0)};
    line.insert(line.end(), n, Dim(1));
    y = y + reshape(*bias, line);
  }
  return alone ? squeeze(y, 0) : y;
}

Value padded_by_name(const Value& x, const Value& w, const std::optional<Value>& bias, Numbers stride, const std::string& padding, Numbers dilation, int64_t groups) {
  const size_t n = static_cast<size_t>(w.rank()) - 2;
  Convolution c{std::move(stride), spread(std::move(dilation), n, "dilation"), Numbers(n, 0), Numbers(n, 0), groups};
  if (padding == "same") {
    for (size_t i = 0; i < n; ++i) {
      auto size = w.dims()[2 + i].constant();
      if (!size) fail(Code::unsupported, "convolution: a kernel of dynamic size");
      const int64_t total = c.dilation[i] * (*size - 1);
      c.before[i] = total / 2;
      c.after[i] = total - total / 2;
    }
  } else if (padding != "valid") {
    fail(Code::invalid_input, "convolution: padding \"{}\" is neither \"same\" nor \"valid\"", padding);
  }
  return convolution(x, w, bias, std::move(c));
}

// ---- pooling

struct Pool {
  Windows on;
  Dims counts;
};

Pool pool_of(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, Numbers dilation, bool ceil_mode) {
  if (x.rank() < static_cast<int64_t>(n) + 1) fail(Code::invalid_input, "pooling: rank {} is below {}", x.rank(), n + 1);
  Pool p;
  p.on.kernel = spread(std::move(kernel), n, "kernel_size");
  p.on.stride = stride.empty() ? p.on.kernel : spread(std::move(stride), n, "stride");
  p.on.dilation = spread(std::move(dilation), n, "dilation");
  p.on.before = p.on.after = spread(std::move(padding), n, "padding");
  for (size_t i = 0; i < n; ++i) {
    const Dim size = x.dim(static_cast<Axis>(i) - static_cast<Axis>(n));
    if (!ceil_mode) {
      p.counts.push_back(p.on.count(i, size));
      continue;
    }
    // The last window may reach over the end, but must not start there.
    auto known = size.constant();
    if (!known) fail(Code::unsupported, "pooling: ceil_mode on an axis of dynamic size");
    const int64_t padded = *known + p.on.before[i], s = p.on.stride[i];
    int64_t count = (padded + p.on.after[i] - p.on.reach(i) - 1 + s - 1) / s + 1;
    if ((count - 1) * s >= padded) --count;
    p.on.after[i] = std::max(p.on.after[i], (count - 1) * s + p.on.reach(i) + 1 - padded);
    p.counts.push_back(count);
  }
  return p;
}

Scalar lowest(DType t) {
  if (is_float(t)) return -std::numeric_limits<double>::infinity();
  if (t == DType::u8 || t == DType::b8) return 0;
  return t == DType::i8 ? INT64_C(-128) : t == DType::i16 ? INT64_C(-32768) : t == DType::i32 ? int64_t{std::numeric_limits<int32_t>::min()} : std::numeric_limits<int64_t>::min();
}

constexpr int64_t few_places = 25;

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

Value max_pool(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, Numbers dilation, bool ceil_mode) {
  Pool p = pool_of(x, n, std::move(kernel), std::move(stride), std::move(padding), std::move(dilation), ceil_mode);
  const Value windows = windows_on(x, p.on, p.counts, lowest(x.dtype()));
  if (places_of(p.on) > few_places) return amax(windows, last_axes(windows, n));
  const std::vector<Value> each = each_place(windows, p.on);
  return std::accumulate(each.begin() + 1, each.end(), each[0],
                         [](const Value& most, const Value& one) { return maximum(one, most); });  // of equal ones, zeros of two signs, the first
}

Value avg_pool(const Value& x, size_t n, Numbers kernel, Numbers stride, Numbers padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  const Numbers given = spread(padding, n, "padding");
  Pool p = pool_of(x, n, std::move(kernel), std::move(stride), std::move(padding), {1}, ceil_mode);
  if (!is_float(x.dtype())) fail(Code::unsupported, "avg_pool of integers");
  const Value windows = windows_on(x, p.on, p.counts, 0);
  const int64_t whole = places_of(p.on);
  std::optional<Value> sums;
  if (whole > few_places) {
    sums = sum(widened(windows), last_axes(windows, n));
  } else {
    for (const Value& one : each_place(windows, p.on)) sums = sums ? *sums + widened(one) : widened(one) + 0.0;  // eager begins with 0: of -0.0 alone it is 0.0
  }
  Value y = *sums;
  bool inside = true;
  for (size_t i = 0; i < n; ++i) {
    // Every window has all of its elements: nothing is padded, or padding counts and no window reaches over it.
    inside = inside && (count_include_pad ? p.on.after[i] == given[i] : given[i] == 0 && p.on.after[i] == 0);
  }
  if (divisor || inside) return cast(y / static_cast<double>(divisor.value_or(whole)), x.dtype());
  // The number of elements of each window that count, one axis at a time.
  Graph& g = x.graph();
  for (size_t i = 0; i < n; ++i) {
    const Dim size = x.dim(static_cast<Axis>(i) - static_cast<Axis>(n));
    Dims line{p.counts[i]};
    line.insert(line.end(), n - 1 - i, Dim(1));
    Value start = ir::index(g, line, 0) * p.on.stride[i] - given[i], end = start + p.on.kernel[i];
    Value counted = count_include_pad ? minimum(end, Operand(size + Dim(given[i]))) - start : minimum(end, Operand(size)) - maximum(start, 0);
    y = y / cast(counted, y.dtype());
  }
  return cast(y, x.dtype());
}

// Windows between i * size / n and (i + 1) * size / n.
Value adaptive_avg_pool(Value x, const Dims& sizes) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "adaptive_avg_pool of integers");
  const DType t = x.dtype();
  x = widened(x);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Axis axis = x.rank() - static_cast<Axis>(sizes.size() - i);
    const Dim size = x.dim(axis);
    auto n = sizes[i].constant();
    if (!n) fail(Code::unsupported, "adaptive_avg_pool to a dynamic size");
    if (size == Dim(*n)) continue;
    if (mod(size, *n) == Dim(0)) {
      Dims split = x.dims();
      split[static_cast<size_t>(axis)] = floordiv(size, *n);
      split.insert(split.begin() + axis, Dim(*n));
      x = mean(reshape(x, split), {axis + 1});
      continue;
    }
    // [n, longest]: the elements of each window in order. Elements outside are skipped, not multiplied by 0: they may be infinite.
    Graph& g = x.graph();
    Dim longest = floordiv(size, *n) + Dim(2);
    if (auto known = size.constant()) {
      int64_t most = 0;
      for (int64_t w = 0; w < *n; ++w) most = std::max(most, ((w + 1) * *known + *n - 1) / *n - w * *known / *n);
      longest = Dim(most);
    }
    const Value line = ir::index(g, {Dim(*n), Dim(1)}, 0);
    const Value start = ir::map(Op::floordiv, {line * Operand(size), *n}), end = ir::map(Op::floordiv, {(line + 1) * Operand(size) + (*n - 1), *n});
    const Value at = start + ir::index(g, {Dim(*n), longest}, 1);
    auto laid = [&](const Value& v, Dim across) {  // beside the axes behind
      Dims dims{Dim(*n), std::move(across)};
      dims.insert(dims.end(), static_cast<size_t>(x.rank() - 1 - axis), Dim(1));
      return reshape(v, dims);
    };
    const Value windows = select(laid(at < end, longest), gather(x, {axis}, {minimum(at, Operand(size - Dim(1)))}, axis, false), 0.0);
    x = squeeze(sum(windows, {axis + 1}, keep) / laid(cast(end - start, x.dtype()), Dim(1)), axis + 1);
  }
  return cast(x, t);
}

// ---- resizing

// Nearest: output i reads floor(i * scale), in float32 as ATen has it.
Value nearest(Value x, const std::vector<std::optional<double>>& scales, const Dims& sizes) {
  Graph& g = x.graph();
  const int64_t first = x.rank() - static_cast<int64_t>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Axis axis = first + static_cast<Axis>(i);
    const Dim from = x.dim(axis);
    // In two dimensions ATen looks at the sizes before the scale.
    const bool by_size = sizes.size() == 2 || scales[i].value_or(1) == 1;
    if (from == sizes[i] && by_size) continue;
    if (sizes[i] == from * Dim(2) && sizes.size() == 2) {
      x = gather(x, {axis}, {ir::map(Op::floordiv, {iota(g, sizes[i]), 2})}, axis, false);
      continue;
    }
    auto have = from.constant(), want = sizes[i].constant();
    double scale;
    if (scales[i] && *scales[i] > 0) {
      scale = static_cast<float>(1.0 / *scales[i]);
    } else if (have && want) {
      scale = static_cast<float>(*have) / static_cast<float>(*want);
    } else {
      fail(Code::unsupported, "upsample_nearest between dynamic sizes without a scale");
    }
    Value at = cast(ir::map(Op::floor, {cast(iota(g, sizes[i]), DType::f32) * scale}), DType::i64);
    x = gather(x, {axis}, {minimum(at, Operand(from - Dim(1)))}, axis, false);
  }
  return x;
}

Value nearest_to(const Value& x, std::optional<Dims> sizes, std::optional<std::vector<double>> factors) {
  const size_t n = static_cast<size_t>(x.rank()) - 2;
  std::vector<std::optional<double>> scales(n);
  if (factors) {
    for (size_t i = 0; i < n && i < factors->size(); ++i) scales[i] = (*factors)[i];
  }
  if (!sizes) {
    if (!factors || factors->size() != n) fail(Code::invalid_input, "upsample: neither sizes nor scales");
    sizes.emplace();
    for (size_t i = 0; i < n; ++i) {
      const Dim& size = x.dims()[2 + i];
      const double factor = (*factors)[i];
      if (auto known = size.constant()) {
        sizes->push_back(static_cast<int64_t>(static_cast<double>(*known) * factor));
      } else if (factor == static_cast<double>(static_cast<int64_t>(factor))) {
        sizes->push_back(size * Dim(static_cast<int64_t>(factor)));
      } else {
        fail(Code::unsupported, "upsample of a dynamic size by {}", factor);
      }
    }
  }
  return nearest(x, scales, *sizes);
}

// [N, C r^2, H, W] <-> [N, C, H r, W r]
Value pixel_shuffle(const Value& x, int64_t r) {
  const size_t lead = static_cast<size_t>(x.rank()) - 3;
  Dims split(x.dims().begin(), x.dims().begin() + static_cast<int64_t>(lead)), merged = split;
  const Dim channels = floordiv(x.dim(-3), r * r), h = x.dim(-2), w = x.dim(-1);
  for (const Dim& d : {channels, Dim(r), Dim(r), h, w}) split.push_back(d);
  for (const Dim& d : {channels, h * Dim(r), w * Dim(r)}) merged.push_back(d);
  Axes order;
  for (size_t i = 0; i < lead; ++i) order.push_back(static_cast<Axis>(i));
  for (int64_t i : {0, 3, 1, 4, 2}) order.push_back(static_cast<Axis>(lead) + i);
  return reshape(permute(reshape(x, split), order), merged);
}

Value pixel_unshuffle(const Value& x, int64_t r) {
  const size_t lead = static_cast<size_t>(x.rank()) - 3;
  Dims split(x.dims().begin(), x.dims().begin() + static_cast<int64_t>(lead)), merged = split;
  const Dim channels = x.dim(-3), h = floordiv(x.dim(-2), r), w = floordiv(x.dim(-1), r);
  for (const Dim& d : {channels, h, Dim(r), w, Dim(r)}) split.push_back(d);
  for (const Dim& d : {channels * Dim(r * r), h, w}) merged.push_back(d);
  Axes order;
  for (size_t i = 0; i < lead; ++i) order.push_back(static_cast<Axis>(i));
  for (int64_t i : {0, 2, 4, 1, 3}) order.push_back(static_cast<Axis>(lead) + i);
  return reshape(permute(reshape(x, split), order), merged);
}

const Definition definitions[] = {
    {"conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups});
     }},
    {"conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding='valid', SymInt[1] dilation=[1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, std::string padding, Numbers dilation, int64_t groups) {
       return padded_by_name(x, w, b, stride, padding, dilation, groups);
     }},
    {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups});
     }},
    {"conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding='valid', SymInt[2] dilation=[1, 1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, std::string padding, Numbers dilation, int64_t groups) {
       return padded_by_name(x, w, b, stride, padding, dilation, groups);
     }},
    {"conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups});
     }},
    {"conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding='valid', SymInt[3] dilation=[1, 1, 1], SymInt groups=1)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, std::string padding, Numbers dilation, int64_t groups) {
       return padded_by_name(x, w, b, stride, padding, dilation, groups);
     }},
    {"conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] "
     "dilation=[1])",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers more, int64_t groups, Numbers dilation) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, true, more});
     }},
    {"conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, "
     "SymInt[2] dilation=[1, 1])",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers more, int64_t groups, Numbers dilation) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, true, more});
     }},
    {"conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt "
     "groups=1, SymInt[3] dilation=[1, 1, 1])",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers more, int64_t groups, Numbers dilation) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, true, more});
     }},
    {"convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, bool transposed, Numbers more, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, transposed, more});
     }},
    {"max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False)",
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 1, k, s, p, d, up); }},
    {"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False)",
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 2, k, s, p, d, up); }},
    {"max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False)",
     [](Value x, Numbers k, Numbers s, Numbers p, Numbers d, bool up) { return max_pool(x, 3, k, s, p, d, up); }},
    {"avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads) { return avg_pool(x, 1, k, s, p, up, pads, std::nullopt); }},
    {"avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads, std::optional<int64_t> divisor) { return avg_pool(x, 2, k, s, p, up, pads, divisor); }},
    {"avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None)",
     [](Value x, Numbers k, Numbers s, Numbers p, bool up, bool pads, std::optional<int64_t> divisor) { return avg_pool(x, 3, k, s, p, up, pads, divisor); }},
    {"adaptive_avg_pool1d(Tensor self, int[1] output_size)", [](Value x, Dims sizes) { return adaptive_avg_pool(x, sizes); }},
    {"adaptive_avg_pool2d(Tensor self, SymInt[2] output_size)", [](Value x, Dims sizes) { return adaptive_avg_pool(x, sizes); }},
    {"upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors)",
     [](Value x, std::optional<Dims> sizes, std::optional<std::vector<double>> factors) { return nearest_to(x, sizes, factors); }},
    {"upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors)",
     [](Value x, std::optional<Dims> sizes, std::optional<std::vector<double>> factors) { return nearest_to(x, sizes, factors); }},
    {"upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors)",
     [](Value x, std::optional<Dims> sizes, std::optional<std::vector<double>> factors) { return nearest_to(x, sizes, factors); }},
    {"upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None)", [](Value x, Dims sizes, std::optional<double> s) { return nearest(x, {s}, sizes); }},
    {"upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims sizes, std::optional<double> h, std::optional<double> w) { return nearest(x, {h, w}, sizes); }},
    {"pixel_shuffle(Tensor self, int upscale_factor)", [](Value x, int64_t r) { return pixel_shuffle(x, r); }},
    {"pixel_unshuffle(Tensor self, int downscale_factor)", [](Value x, int64_t r) { return pixel_unshuffle(x, r); }},
};

}  // namespace

std::span<const Definition> convolution_definitions() { return definitions; }

}  // namespace ingot::ops
