// Images and sequences at other sizes: upsampling, antialiased too, sampling at given places, pixel shuffles.
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ir/half.h"
#include "ir/scaled_sizes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

using Factors = std::vector<std::optional<double>>;  // of each axis, output over input, where the caller gave it

Value as_number(Graph& g, const Dim& size, DType t) { return literal(g, size, t); }

// From one output to the next, in elements of the input and in numbers of `t`, as ATen has it. `corners`: first and last elements lie on one another.
Operand step_between(Graph& g, const Dim& from, const Dim& to, bool corners, std::optional<double> factor, DType t) {
  if (!corners && factor && *factor > 0) return rounded_to(t, 1.0 / *factor);
  const Dim have = corners ? (from - Dim(1)) * min(max(to - Dim(1), 0), 1) : from, want = corners ? max(to - Dim(1), 1) : to;  // to a single element: 0
  if (!have.is_constant() || !want.is_constant()) return as_number(g, have, t) / as_number(g, want, t);
  if (want == Dim(0)) return 0.0;
  return rounded_to(t, static_cast<double>(have.value()) / static_cast<double>(want.value()));
}

// Shaped so that it broadcasts along `axis` of a tensor of that rank; its own axes are one after another from there.
Value along(const Value& x, Axis axis, int64_t rank) {
  Dims dims = x.dims();
  dims.insert(dims.end(), static_cast<size_t>(rank - 1 - axis), Dim(1));
  return reshape(x, dims);
}

Value as_index(const Value& x, const Dim& size) { return maximum(minimum(cast(x, DType::i64), Operand(size - Dim(1))), 0); }

// ---- nearest

// How often each element of an axis repeats; nullopt where a factor's rounding in float32 would have to be followed.
std::optional<int64_t> repeats(const Dim& from, const Dim& to) {
  for (int64_t r : {1, 2, 4, 8, 16}) {
    if (to == from * Dim(r)) return r;
  }
  return std::nullopt;
}

// Every element of the last axes `times` along each.
Value repeated(const Value& x, const std::vector<int64_t>& times, const Dims& sizes) {
  const size_t lead = x.dims().size() - times.size();
  AffineMap map;
  for (size_t d = 0; d < x.dims().size(); ++d) {
    map.axes.push_back({0, {{static_cast<uint32_t>(map.dims.size()), 1}}});
    map.dims.push_back(x.dims()[d]);
    if (d >= lead && times[d - lead] > 1) map.dims.push_back(times[d - lead]);
  }
  Dims result(x.dims().begin(), x.dims().begin() + static_cast<int64_t>(lead));
  result.insert(result.end(), sizes.begin(), sizes.end());
  return reshape(view(x, std::move(map)), result);
}

// Output i reads floor(i * step), or floor((i + 1/2) * step), in float32 as ATen has it.
Value nearest(Value x, const Factors& factors, const Dims& sizes, bool exact) {
  if (!is_float(x.dtype()) && x.dtype() != DType::u8) fail(Code::unsupported, "upsampling of {}", name_of(x.dtype()));
  Graph& g = x.graph();
  const int64_t first = x.rank() - static_cast<int64_t>(sizes.size());
  const bool sizes_first = sizes.size() == 2 && !exact;  // there ATen looks at the sizes before the factor
  std::vector<int64_t> times;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto r = repeats(x.dim(first + static_cast<Axis>(i)), sizes[i]);
    const bool by_size = sizes_first || !factors[i] || (r && *factors[i] == static_cast<double>(*r));
    if (r && by_size) times.push_back(*r);
  }
  if (times.size() == sizes.size()) return repeated(x, times, sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Axis axis = first + static_cast<Axis>(i);
    const Dim from = x.dim(axis);
    if (from == sizes[i] && (sizes_first || factors[i].value_or(1) == 1)) continue;
    Value at = iota(g, sizes[i]);
    if (sizes[i] == from * Dim(2) && sizes_first) {
      at = ir::map(Op::floordiv, {at, 2});
    } else {
      at = cast(at, DType::f32);
      at = minimum(cast(floor((exact ? at + 0.5 : at) * step_between(g, from, sizes[i], false, factors[i], DType::f32)), DType::i64), Operand(from - Dim(1)));
    }
    x = gather(x, {axis}, {at}, axis, false);
  }
  return x;
}

// ---- linear and cubic

// The place of each output of an axis in the input: a real number of `t` each.
Value places(Graph& g, const Dim& from, const Dim& to, bool corners, std::optional<double> factor, DType t, bool cubic) {
  const Value i = cast(iota(g, to), t);
  const Operand step = step_between(g, from, to, corners, factor, t);
  if (corners) return i * step;
  Value at = (i + 0.5) * step - 0.5;
  if (cubic) return at;
  at = maximum(at, 0.0);
  // An axis that keeps its size is read as it is, whatever the factor.
  const Truth same = factor ? known_equal(from, to, g.symbols) : Truth::no;
  return same == Truth::unknown ? select(equal(literal(g, from, DType::i64), literal(g, to, DType::i64)), i, at) : at;
}

// The weights of the four elements around a place that is `t` after the second.
std::vector<Value> cubic_weights(const Value& t, double a) {
  auto near = [&](const Value& x) { return ((x * (a + 2) - (a + 3)) * x * x) + 1.0; };
  auto far = [&](const Value& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

// Along one axis, the input's elements around each place, weighted.
Value interpolated(const Value& x, Axis axis, const Value& at, bool cubic, DType t) {
  const Dim size = x.dim(axis);
  const Value low = minimum(cast(floor(at), DType::i64), Operand(size - Dim(1)));
  const Value behind = clamp(at - cast(low, at.dtype()), Operand(0.0), Operand(1.0));
  const std::vector<Value> weights = cubic ? cubic_weights(behind, -0.75) : std::vector<Value>{1.0 - behind, behind};
  std::optional<Value> sum;
  for (size_t k = 0; k < weights.size(); ++k) {
    const Value index = as_index(low + (static_cast<int64_t>(k) - (cubic ? 1 : 0)), size);
    const Value term = cast(gather(x, {axis}, {index}, axis, false), t) * along(weights[k], axis, x.rank());
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

// Antialiased: each output is the mean of the input's elements under a hat (or cubic) as wide as the step.
Value filtered(const Value& x, Axis axis, const Dim& to, bool corners, std::optional<double> factor, bool cubic) {
  Graph& g = x.graph();
  const DType t = x.dtype();
  const Dim from = x.dim(axis);
  const int64_t reach = cubic ? 2 : 1;  // half of the filter, in steps
  const Operand step = step_between(g, from, to, corners, factor, t);
  auto at_least_one = [&](const Operand& o) -> Operand {
    if (o.value) return maximum(*o.value, 1.0);
    return std::max(o.number.to_double(), 1.0);
  };
  const Operand wide = at_least_one(step);
  // The most elements under the filter.
  Dim taps = 0;
  if (!wide.value) {
    taps = static_cast<int64_t>(std::ceil(wide.number.to_double() * static_cast<double>(reach))) * 2 + 1;
  } else {
    const Dim have = corners ? from - Dim(1) : from, want = corners ? max(to - Dim(1), 1) : to;
    taps = max(ceildiv(have * Dim(reach), want), reach) * Dim(2) + Dim(3);
  }
  const Value centre = (cast(ir::index(g, {to, Dim(1)}, 0), t) + 0.5) * step;
  auto half = [&]() -> Operand {
    if (wide.value) return *wide.value * static_cast<double>(reach);
    return wide.number.to_double() * static_cast<double>(reach);
  }();
  const Value first = maximum(cast(trunc(centre - half + 0.5), DType::i64), 0), end = minimum(cast(trunc(centre + half + 0.5), DType::i64), Operand(from));
  const Value at = first + ir::index(g, {to, taps}, 1), inside = at < end;
  const Value d = abs((cast(at, t) - centre + 0.5) / wide);
  Value weight = cubic ? select(d < 1.0, (d * 1.5 - 2.5) * d * d + 1.0, select(d < 2.0, (((d - 5.0) * d + 8.0) * d - 4.0) * -0.5, 0.0)) : maximum(1.0 - d, 0.0);
  weight = select(inside, weight, 0.0);
  weight = weight / sum(weight, {1}, keep);
  // Elements outside are skipped, not multiplied by 0: they may be infinite.
  const Value read = gather(x, {axis}, {as_index(at, from)}, axis, false);
  return sum(select(along(inside, axis, x.rank()), read * along(weight, axis, x.rank()), 0.0), {axis + 1});
}

enum class Resize : uint8_t { linear, cubic, linear_antialias, cubic_antialias };

Value resized(const Value& given, const Factors& factors, const Dims& sizes, bool corners, Resize how) {
  const DType t = given.dtype();
  if (!is_float(t)) fail(Code::unsupported, "upsampling of {}", name_of(t));
  const bool cubic = how == Resize::cubic || how == Resize::cubic_antialias, antialias = how >= Resize::linear_antialias;
  const int64_t first = given.rank() - static_cast<int64_t>(sizes.size());
  const DType wide = widened(given).dtype();
  bool unchanged = true;
  for (size_t i = 0; i < sizes.size(); ++i) unchanged = unchanged && given.dim(first + static_cast<Axis>(i)) == sizes[i];
  if (unchanged && !cubic) return given;
  Value x = antialias ? cast(given, wide) : given;
  // The last axis first, as ATen; but less is filtered after an axis in front of it has shrunk, since lines of that axis are read whole.
  bool shrinks = antialias;
  for (size_t i = 0; i < sizes.size(); ++i) shrinks = shrinks && known_less(sizes[i], given.dim(first + static_cast<Axis>(i)), given.graph().symbols) == Truth::yes;
  for (size_t k = 0; k < sizes.size(); ++k) {
    const size_t i = shrinks ? k : sizes.size() - 1 - k;
    const Axis axis = first + static_cast<Axis>(i);
    const Dim from = x.dim(axis);
    if (antialias && from == sizes[i] && factors[i].value_or(1) == 1) continue;
    if (antialias) {
      x = filtered(x, axis, sizes[i], corners, factors[i], cubic);
    } else if (cubic || !(from == sizes[i])) {
      x = interpolated(x, axis, places(x.graph(), from, sizes[i], corners, factors[i], wide, cubic), cubic, wide);
    }
  }
  return cast(x, t);
}

// ---- sizes and factors

// floor(size * factor).
Dim size_of(const Dim& size, double factor, std::span<const ir::Symbol> symbols) {
  if (auto known = size.constant()) return static_cast<int64_t>(static_cast<double>(*known) * factor);
  if (auto made = scaled(size, factor, size.range(symbols))) return *made;
  fail(Code::unsupported, "upsample of a dynamic size by {}, which is no fraction with a denominator of at most 4,096", factor);
}

struct Target {
  Dims sizes;
  Factors factors;
};

// Sizes, or factors of them.
Target target_of(const Value& x, const std::optional<Dims>& sizes, const std::optional<std::vector<double>>& factors) {
  const size_t n = static_cast<size_t>(x.rank()) - 2;
  Target t{sizes.value_or(Dims()), Factors(n)};
  if (!sizes && (!factors || factors->size() != n)) fail(Code::invalid_input, "upsample: neither sizes nor factors");
  for (size_t i = 0; i < n; ++i) {
    if (factors && i < factors->size()) t.factors[i] = (*factors)[i];
    if (!sizes) t.sizes.push_back(size_of(x.dims()[2 + i], (*factors)[i], x.graph().symbols));
  }
  return t;
}

using Sizes = std::optional<Dims>;
using Given = std::optional<std::vector<double>>;
using Factor = std::optional<double>;

Value nearest_to(const Value& x, const Sizes& sizes, const Given& factors, bool exact) {
  const Target t = target_of(x, sizes, factors);
  return nearest(x, t.factors, t.sizes, exact);
}

Value resized_to(const Value& x, const Sizes& sizes, bool corners, const Given& factors, Resize how) {
  const Target t = target_of(x, sizes, factors);
  return resized(x, t.factors, t.sizes, corners, how);
}

// ---- sampling at given places

// x [N, C, sizes...] at the places of grid [N, out..., n], whose last axis names the last axis of x first.
Value sampled(const Value& x, const Value& grid, int64_t mode, int64_t outside, bool corners) {
  constexpr const char *modes[] = {"linear", "nearest", "cubic"}, *outsides[] = {"zeros", "border", "reflection"};
  if (!is_float(x.dtype())) fail(Code::unsupported, "grid_sampler of {}", name_of(x.dtype()));
  if (mode < 0 || mode > 2 || outside < 0 || outside > 2) fail(Code::invalid_input, "grid_sampler: mode {} with padding {}; both are 0, 1 or 2", mode, outside);
  require(x.graph(), x.dim(0), Check::equal, grid.dim(0), "grid and input have equal batch sizes");
  for (size_t i = 2; i < x.dims().size(); ++i) require(x.graph(), 1, Check::less_equal, x.dims()[i], "the sampled input has elements");
  const Value y = ir::grid_sample(x, widened(grid), modes[mode], outsides[outside], corners);
  Axes order{0, y.rank() - 1};
  for (Axis i = 1; i < y.rank() - 1; ++i) order.push_back(i);
  return permute(y, order);
}

// theta [N, n, n + 1] applied to places between -1 and 1: [N, sizes..., n].
Value affine_grid(const Value& given, const Dims& size, bool corners) {
  const Value theta = widened(given);
  const size_t n = size.size() - 2;
  Graph& g = theta.graph();
  Dims line(n + 2, Dim(1));
  line[0] = theta.dim(0);
  line[n + 1] = Dim(static_cast<int64_t>(n));
  require(g, size[0], Check::equal, theta.dim(0), "the grid has as many images as there are matrices");
  Value y = reshape(take(theta, -1, static_cast<int64_t>(n)), line);
  for (size_t i = 0; i < n; ++i) {
    Dims shape(n + 2, Dim(1));
    shape[n - i] = size[size.size() - 1 - i];  // x names the last axis
    const Dim& count = shape[n - i];
    const Value twice = ir::index(g, shape, static_cast<Axis>(n - i)) * 2 - Operand(count - Dim(1));
    const Value at = cast(twice, theta.dtype()) / as_number(g, corners ? max(count - Dim(1), 1) : count, theta.dtype());
    y = y + at * reshape(take(theta, -1, static_cast<int64_t>(i)), line);
  }
  Dims dims{theta.dim(0)};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.emplace_back(static_cast<int64_t>(n));
  return cast(expand(y, dims), given.dtype());
}

// ---- shuffles

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

// Channels in groups are read across the groups.
Value channel_shuffle(const Value& x, const Dim& groups) {
  Dims split = x.dims();
  split[1] = floordiv(x.dim(1), groups);
  split.insert(split.begin() + 1, groups);
  return reshape(transpose(reshape(x, split), 1, 2), x.dims());
}

const Definition resize_rows[] = {
    {"upsample_nearest{1d,2d,3d}.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors)", [](Value x, Sizes s, Given f) { return nearest_to(x, s, f, false); }},
    {"_upsample_nearest_exact{1d,2d,3d}.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors)", [](Value x, Sizes s, Given f) { return nearest_to(x, s, f, true); }},
    {"upsample_nearest1d(Tensor self, SymInt[1] output_size, float? scales=None)", [](Value x, Dims s, Factor w) { return nearest(x, {w}, s, false); }},
    {"upsample_nearest2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, Factor h, Factor w) { return nearest(x, {h, w}, s, false); }},
    {"upsample_nearest3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, Factor d, Factor h, Factor w) { return nearest(x, {d, h, w}, s, false); }},
    {"_upsample_nearest_exact1d(Tensor self, SymInt[1] output_size, float? scales=None)", [](Value x, Dims s, Factor w) { return nearest(x, {w}, s, true); }},
    {"_upsample_nearest_exact2d(Tensor self, SymInt[2] output_size, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, Factor h, Factor w) { return nearest(x, {h, w}, s, true); }},
    {"_upsample_nearest_exact3d(Tensor self, SymInt[3] output_size, float? scales_d=None, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, Factor d, Factor h, Factor w) { return nearest(x, {d, h, w}, s, true); }},
    {"{upsample_linear1d,upsample_bilinear2d,upsample_trilinear3d}.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)",
     [](Value x, Sizes s, bool corners, Given f) { return resized_to(x, s, corners, f, Resize::linear); }},
    {"upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)",
     [](Value x, Sizes s, bool corners, Given f) { return resized_to(x, s, corners, f, Resize::cubic); }},
    {"_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)",
     [](Value x, Sizes s, bool corners, Given f) { return resized_to(x, s, corners, f, Resize::linear_antialias); }},
    {"_upsample_bicubic2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)",
     [](Value x, Sizes s, bool corners, Given f) { return resized_to(x, s, corners, f, Resize::cubic_antialias); }},
    {"upsample_linear1d(Tensor self, SymInt[1] output_size, bool align_corners, float? scales=None)",
     [](Value x, Dims s, bool corners, Factor w) { return resized(x, {w}, s, corners, Resize::linear); }},
    {"upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, bool corners, Factor h, Factor w) { return resized(x, {h, w}, s, corners, Resize::linear); }},
    {"upsample_trilinear3d(Tensor self, SymInt[3] output_size, bool align_corners, float? scales_d=None, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, bool corners, Factor d, Factor h, Factor w) { return resized(x, {d, h, w}, s, corners, Resize::linear); }},
    {"upsample_bicubic2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, bool corners, Factor h, Factor w) { return resized(x, {h, w}, s, corners, Resize::cubic); }},
    {"_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, bool corners, Factor h, Factor w) { return resized(x, {h, w}, s, corners, Resize::linear_antialias); }},
    {"_upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None)",
     [](Value x, Dims s, bool corners, Factor h, Factor w) { return resized(x, {h, w}, s, corners, Resize::cubic_antialias); }},
    {"{grid_sampler,grid_sampler_2d,grid_sampler_3d}(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)", Types::same,
     [](Value x, Value grid, int64_t mode, int64_t outside, bool corners) { return sampled(x, grid, mode, outside, corners); }},
    {"affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners)", [](Value theta, Dims size, bool corners) { return affine_grid(theta, size, corners); }},
    // cuDNN's: linear, with zeros outside, and with the corners of the image at -1 and 1.
    {"cudnn_grid_sampler(Tensor self, Tensor grid)", Types::same, [](Value x, Value grid) { return sampled(x, grid, 0, 0, true); }},
    {"cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W)",
     [](Value theta, int64_t n, int64_t c, int64_t h, int64_t w) { return affine_grid(theta, {n, c, h, w}, true); }},
    {"pixel_shuffle(Tensor self, int upscale_factor)", [](Value x, int64_t r) { return pixel_shuffle(x, r); }},
    {"pixel_unshuffle(Tensor self, int downscale_factor)", [](Value x, int64_t r) { return pixel_unshuffle(x, r); }},
    {"{channel_shuffle,native_channel_shuffle}(Tensor self, SymInt groups)", [](Value x, Dim groups) { return channel_shuffle(x, groups); }},
};

}  // namespace

std::span<const Definition> resize_definitions() { return resize_rows; }

}  // namespace ingot::ops
