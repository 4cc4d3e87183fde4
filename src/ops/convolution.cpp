// Convolutions: the windows of the input are one view; a matmul or a reduction reads it.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/windows.h"

namespace ingot::ops {

using namespace ir;

namespace {

// A vector of columns: what products with fewer compute for nothing.
constexpr int64_t max_narrow_columns = 16;

struct Layer {
  Value x, w;  // [N, C, spatial...], [O, C / groups, kernel...]
  std::optional<Value> bias;
  int64_t groups = 1;

  size_t axes() const { return w.dims().size() - 2; }
  // Of each channel by itself.
  bool is_depthwise() const { return w.dim(1) == Dim(1) && w.dim(0) == Dim(groups); }
};

Dims appended(Dims dims, const Dims& more) {
  dims.insert(dims.end(), more.begin(), more.end());
  return dims;
}

// The places of an axis of windows and what is in them, as axes of a view [N, G, C / G, places..., kernel...]; channels in front of the kernel or after it.
Axes places_and_kernel(Axes lead, size_t n, bool channels_first) {
  for (size_t i = 0; i < n; ++i) lead.push_back(static_cast<Axis>(3 + i));
  if (channels_first) lead.push_back(2);
  for (size_t i = 0; i < n; ++i) lead.push_back(static_cast<Axis>(3 + n + i));
  if (!channels_first) lead.push_back(2);
  return lead;
}

// [N, places..., O]: each channel's weighted sum over its windows.
Value sums(const Layer& l, const Windows& on, const Dims& counts) {
  const size_t n = l.axes();
  const Value windows = windows_on(widened(l.x), on, counts, 0);
  const Dims kernel(l.w.dims().begin() + 2, l.w.dims().end()), ones(n, Dim(1));
  Value y = cast(sum(windows * reshape(widened(l.w), appended(appended({Dim(1), l.w.dim(0)}, ones), kernel)), last_axes(windows, n)), l.x.dtype());
  if (l.bias) y = y + reshape(*l.bias, appended({l.w.dim(0)}, ones));
  Axes order{0};
  for (size_t i = 0; i < n; ++i) order.push_back(static_cast<Axis>(2 + i));
  order.push_back(1);
  return permute(y, order);
}

// [N, rows, O]: all windows of an image are the rows of a product, the weights its columns. With `lines` the places of each line are rows of their own:
// [N, places..., O].
Value products(const Layer& l, const Windows& on, const Dims& counts, bool lines) {
  const size_t n = l.axes();
  const Dim batch = l.x.dim(0), each = l.w.dim(1), groups = l.groups, out = floordiv(l.w.dim(0), l.groups);
  Dims kernel(l.w.dims().begin() + 2, l.w.dims().end());
  const Dim inner = each * product(kernel);
  const Dims rows = appended(lines ? counts : Dims{product(counts)}, {inner});
  const Dims spatial(l.x.dims().begin() + 2, l.x.dims().end());
  const Value windows = windows_on(reshape(l.x, appended({batch, groups, each}, spatial)), on, counts, 0);
  Axes of_weights;
  for (size_t i = 0; i < n; ++i) of_weights.push_back(static_cast<Axis>(2 + i));
  if (l.groups == 1) {
    // The channels of a place are neighbours, unless they are few.
    const bool is_narrow = each.constant().value_or(8) < 8;
    of_weights.insert(is_narrow ? of_weights.begin() : of_weights.end(), 1);
    of_weights.insert(of_weights.begin(), 0);
    const Value a = reshape(permute(windows, places_and_kernel({0, 1}, n, is_narrow)), appended({batch}, rows));
    const Value y = matmul(a, transpose(reshape(permute(l.w, of_weights), {l.w.dim(0), inner}), 0, 1), {{"convolution", true}});
    return l.bias ? y + *l.bias : y;
  }
  // A product for each group. The columns of all groups are neighbours in memory, as those of the result are.
  of_weights.push_back(1);
  of_weights.push_back(0);
  Value b = permute(reshape(reshape(permute(l.w, of_weights), {inner, l.w.dim(0)}), {inner, groups, out}), {1, 0, 2});
  for (size_t i = 0; i < rows.size() - 1; ++i) b = unsqueeze(b, 1);
  Value y = matmul(reshape(permute(windows, places_and_kernel({1, 0}, n, false)), appended({groups, batch}, rows)), b, {{"convolution", true}});
  if (l.bias) y = y + reshape(*l.bias, appended(appended({groups}, Dims(rows.size(), Dim(1))), {out}));
  Axes order;
  for (Axis i = 1; i + 1 < y.rank(); ++i) order.push_back(i);
  order.push_back(0);
  order.push_back(y.rank() - 1);
  return reshape(permute(y, order), appended(appended({batch}, Dims(rows.begin(), rows.end() - 1)), {l.w.dim(0)}));
}

// [N, places..., O] -> [N, O, places...]
Value channels_second(const Value& y) {
  Axes order{0, y.rank() - 1};
  for (Axis i = 1; i + 1 < y.rank(); ++i) order.push_back(i);
  return permute(y, order);
}

Value convolve(const Layer& l, const Windows& on) {
  Dims counts;
  for (size_t i = 0; i < l.axes(); ++i) counts.push_back(on.count(i, l.x.dims()[2 + i]));
  if (l.is_depthwise()) return channels_second(sums(l, on, counts));
  if (l.groups > 1) return channels_second(products(l, on, counts, true));
  return channels_second(reshape(products(l, on, counts, false), appended(appended({l.x.dim(0)}, counts), {l.w.dim(0)})));
}

// ---- transposed: element k of the kernel adds input x to result x * stride + k * dilation - padding

// On one axis the results t * stride + r of one r are a convolution of their own, with the elements first, first + step, .. of the kernel, the last one
// first. Window t begins `before` places in front of t.
struct Phase {
  int64_t first = 0, step, count = 0, dilation, before = 0;
  int64_t last() const { return (count - 1) * dilation - before; }  // of what it reads, from t on
};

Phase phase_of(const Windows& on, size_t i, int64_t r) {
  const int64_t shared = std::gcd(on.stride[i], on.dilation[i]), from = r + on.before[i];
  Phase p{.step = on.stride[i] / shared, .dilation = on.dilation[i] / shared};
  while (p.first < p.step && (from - p.first * on.dilation[i]) % on.stride[i] != 0) ++p.first;
  if (p.first == p.step || p.first >= on.kernel[i]) return p;  // nothing is added there
  p.count = (on.kernel[i] - p.first + p.step - 1) / p.step;
  p.before = (p.count - 1) * p.dilation - (from - p.first * on.dilation[i]) / on.stride[i];
  return p;
}

// The results of each phase are one product (or sum), and no input is multiplied that was not there. Phases of an axis are parts of a concatenation, where
// they are computed in place; neighbours that see the same are columns of one product. Others are not, with zeros in their kernels: an infinite element times zero is NaN.
class Transposed {
 public:
  Transposed(Layer l, Windows on, const Numbers& more) : l_(std::move(l)), on_(std::move(on)), n_(l_.axes()) {
    int64_t all = l_.w.dim(0).constant().value_or(max_narrow_columns);
    for (size_t i = 0; i < n_; ++i) {
      all *= on_.stride[i];
      const int64_t beyond = 1 + on_.reach(i) - 2 * on_.before[i] + more[i];
      const Dim before = l_.x.dims()[2 + i] - Dim(1);
      out_.push_back(before * Dim(on_.stride[i]) + Dim(beyond));
      beyond_.push_back(beyond > 0 ? (beyond + on_.stride[i] - 1) / on_.stride[i] : -(-beyond / on_.stride[i]));
      counts_.push_back(before + Dim(beyond_.back()));
    }
    const bool joins = l_.groups == 1 && std::all_of(on_.dilation.begin(), on_.dilation.end(), [](int64_t d) { return d == 1; });
    for (size_t i = 0; i < n_; ++i) ranges_.push_back(ranges_of(i, joins, all <= max_narrow_columns));
  }

  Value run() const {
    Value y = over(0, Numbers(n_, 0));
    Dims whole{l_.x.dim(0)};
    for (size_t i = 0; i < n_; ++i) whole.push_back(counts_[i] * Dim(on_.stride[i]));
    whole.push_back(l_.w.dim(0));
    y = reshape(y, whole);
    for (size_t i = 0; i < n_; ++i) {
      if (!(whole[1 + i] == out_[i])) y = slice(y, static_cast<Axis>(1 + i), Dim(0), out_[i], 1);
    }
    return channels_second(y);
  }

 private:
  // Neighbouring phases of an axis, as columns of one product.
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  // Of many columns only all phases of the last axis are joined.
  std::vector<Range> ranges_of(size_t i, bool joins, bool is_narrow) const {
    std::vector<Range> joined, single;
    for (int64_t r = 0; r < on_.stride[i]; ++r) {
      single.push_back({r, r + 1});
      const Phase p = phase_of(on_, i, r), last = phase_of(on_, i, std::max<int64_t>(0, r - 1));
      if (r > 0 && p.count == last.count && p.before == last.before) {
        ++joined.back().end;
      } else {
        joined.push_back({r, r + 1});
      }
    }
    return joins && (is_narrow || (i + 1 == n_ && joined.size() == 1)) ? joined : single;
  }
  const Range& range(size_t axis, const Numbers& at) const { return ranges_[axis][static_cast<size_t>(at[axis])]; }

  // [N, places, phases, places, phases.., O] of the ranges `at` on the axes before this one.
  Value over(size_t axis, Numbers at) const {
    if (axis == n_) return part(at);
    std::vector<Value> parts;
    for (at[axis] = 0; at[axis] < std::ssize(ranges_[axis]); ++at[axis]) parts.push_back(over(axis + 1, at));
    return parts.size() == 1 ? parts[0] : concat(parts, static_cast<Axis>(2 + 2 * axis));
  }

  Value part(const Numbers& at) const {
    Windows on = on_;
    on.stride.assign(n_, 1);
    Dims joined;
    for (size_t i = 0; i < n_; ++i) {
      const Phase p = phase_of(on_, i, range(i, at).begin);
      if (p.count == 0) return nothing(at);
      on.kernel[i] = p.count;
      on.dilation[i] = p.dilation;
      on.before[i] = p.before;
      on.after[i] = std::max<int64_t>(0, p.last() + beyond_[i] - 1);
      if (range(i, at).count() > 1) joined.push_back(range(i, at).count());
    }
    std::vector<Value> kernels;
    add_kernels(kernels, l_.w, 0, at);
    Layer l = l_;
    l.w = kernels.size() == 1 ? kernels[0] : concat(kernels, 0);
    if (l.bias) l.bias = kernels.size() == 1 ? *l.bias : concat(std::vector<Value>(kernels.size(), *l.bias), 0);
    const Value y = l.is_depthwise() ? sums(l, on, counts_) : products(l, on, counts_, joined.size() < n_);
    return phases_next_to_places(reshape(y, appended(appended({l.x.dim(0)}, counts_), appended(joined, {l_.w.dim(0)}))), at);
  }

  Value nothing(const Numbers& at) const {
    Dims dims{l_.x.dim(0)};
    for (size_t i = 0; i < n_; ++i) dims = appended(std::move(dims), {counts_[i], Dim(range(i, at).count())});
    dims.push_back(l_.w.dim(0));
    const Value zeros = full(l_.x.graph(), dims, 0, l_.x.dtype());
    return l_.bias ? zeros + *l_.bias : zeros;
  }

  // The kernel of each phase of the ranges `at`, cut from `w` on the axes before this one.
  void add_kernels(std::vector<Value>& to, const Value& w, size_t axis, const Numbers& at) const {
    if (axis == n_) {
      Axes spatial;
      for (size_t i = 0; i < n_; ++i) spatial.push_back(static_cast<Axis>(2 + i));
      to.push_back(flip(w, spatial));
      return;
    }
    for (int64_t r = range(axis, at).begin; r < range(axis, at).end; ++r) {
      const Phase p = phase_of(on_, axis, r);
      add_kernels(to, slice(w, static_cast<Axis>(2 + axis), Dim(p.first), std::nullopt, p.step), axis + 1, at);
    }
  }

  // [N, places.., phases.., O] -> [N, places, phases, places, phases.., O]
  Value phases_next_to_places(Value y, const Numbers& at) const {
    Axes order{0};
    auto next = static_cast<Axis>(1 + n_);
    Dims dims{y.dim(0)};
    for (size_t i = 0; i < n_; ++i) {
      order.push_back(static_cast<Axis>(1 + i));
      if (range(i, at).count() > 1) order.push_back(next++);
      dims = appended(std::move(dims), {counts_[i], Dim(range(i, at).count())});
    }
    order.push_back(next);
    dims.push_back(l_.w.dim(0));
    return reshape(permute(y, order), dims);
  }

  const Layer l_;
  const Windows on_;
  const size_t n_;
  Dims out_, counts_;  // results, and places of a phase, on each axis
  Numbers beyond_;     // how many places more than there are inputs, less one
  std::vector<std::vector<Range>> ranges_;
};

Value convolve_transposed(Layer l, Windows on, const Numbers& more) {
  for (size_t i = 0; i < l.axes(); ++i) require(l.x.graph(), 1, ir::Check::less_equal, l.x.dims()[2 + i], "a transposed convolution has elements to start from");
  // [C, O / G, kernel...] -> [O, C / G, kernel...]
  const Dims kernel(l.w.dims().begin() + 2, l.w.dims().end());
  const Dim each = floordiv(l.w.dim(0), l.groups), out = l.w.dim(1);
  l.w = reshape(transpose(reshape(l.w, appended({Dim(l.groups), each, out}, kernel)), 1, 2), appended({out * Dim(l.groups), each}, kernel));
  return Transposed(std::move(l), std::move(on), more).run();
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
  Layer l{x, w, bias, c.groups};
  const Value y = c.transposed ? convolve_transposed(std::move(l), on, spread(c.more, n, "output_padding")) : convolve(l, on);
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

const Definition convolution_rows[] = {
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
    // The forms of the libraries that torch calls on each device.
    {"_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
     "bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, bool transposed, Numbers more, int64_t groups, bool, bool, bool, bool) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, transposed, more});
     }},
    {"_convolution.deprecated(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, int[] output_padding, SymInt "
     "groups, bool benchmark, bool deterministic, bool cudnn_enabled)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, bool transposed, Numbers more, int64_t groups, bool, bool, bool) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, transposed, more});
     }},
    {"convolution_overrideable(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt "
     "groups)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, bool transposed, Numbers more, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, transposed, more});
     }},
    {"mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers padding, Numbers stride, Numbers dilation, int64_t groups) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups});
     }},
    {"cudnn_convolution(Tensor self, Tensor weight, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic, bool allow_tf32)",
     Types::same,
     [](Value x, Value w, Numbers padding, Numbers stride, Numbers dilation, int64_t groups, bool, bool, bool) {
       return convolution(x, w, std::nullopt, {stride, dilation, padding, padding, groups});
     }},
    {"cudnn_convolution_transpose(Tensor self, Tensor weight, SymInt[] padding, SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool benchmark, bool "
     "deterministic, bool allow_tf32)",
     Types::same,
     [](Value x, Value w, Numbers padding, Numbers more, Numbers stride, Numbers dilation, int64_t groups, bool, bool, bool) {
       return convolution(x, w, std::nullopt, {stride, dilation, padding, padding, groups, true, more});
     }},
    {"{miopen_convolution,miopen_depthwise_convolution}(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool "
     "benchmark, bool deterministic)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers padding, Numbers stride, Numbers dilation, int64_t groups, bool, bool) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups});
     }},
    {"miopen_convolution_transpose(Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups, bool "
     "benchmark, bool deterministic)",
     Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers padding, Numbers more, Numbers stride, Numbers dilation, int64_t groups, bool, bool) {
       return convolution(x, w, b, {stride, dilation, padding, padding, groups, true, more});
     }},
    {"{cudnn_convolution_relu,miopen_convolution_relu}(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups)", Types::same,
     [](Value x, Value w, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, int64_t groups) {
       return relu(convolution(x, w, b, {stride, dilation, padding, padding, groups}));
     }},
    {"{cudnn_convolution_add_relu,miopen_convolution_add_relu}(Tensor self, Tensor weight, Tensor z, Scalar? alpha, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
     "dilation, SymInt groups)",
     Types::same,
     [](Value x, Value w, Value z, std::optional<Scalar> alpha, std::optional<Value> b, Numbers stride, Numbers padding, Numbers dilation, int64_t groups) {
       const Value y = convolution(x, w, b, {stride, dilation, padding, padding, groups});
       return relu(y + (alpha ? z * Operand(*alpha) : z));
     }},
};

}  // namespace

std::span<const Definition> convolution_definitions() { return convolution_rows; }

}  // namespace ingot::ops
