// Softmax and normalisations, composed of reductions and maps; compile makes one fused body of each.
#include <limits>

#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// The type of the result. Of integers eager computes only in a type that the call names.
DType type_of_softmax(const Value& x, std::optional<DType> t) {
  if (!t && !is_float(x.dtype())) fail(Code::unsupported, "a softmax of {} without a dtype of its result", name_of(x.dtype()));
  return t.value_or(x.dtype());
}

// Half values are normalised in f32 and rounded once.
Value softmax(Value x, int64_t dim, std::optional<DType> t) {
  const DType result = type_of_softmax(x, t);
  x = widened(cast(x, result));
  if (x.rank() == 0) return cast(exp(x - x), result);  // of an infinity NaN
  if (x.dim(dim) == Dim(0)) return cast(x, result);
  Value e = exp(x - amax(x, {dim}, keep));
  return cast(e / sum(e, {dim}, keep), result);
}

Value log_softmax(Value x, int64_t dim, std::optional<DType> t) {
  const DType result = type_of_softmax(x, t);
  x = widened(cast(x, result));
  if (x.rank() == 0) return cast(x - x, result);
  if (x.dim(dim) == Dim(0)) return cast(x, result);
  Value shifted = x - amax(x, {dim}, keep);
  return cast(shifted - log(sum(exp(shifted), {dim}, keep)), result);
}

Axes last_axes(const Value& x, size_t n) {
  Axes axes;
  for (int64_t i = x.rank() - static_cast<int64_t>(n); i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

// As in eager: parameters and statistics have the input's dtype, or float32 for a half input.
void require_types(const Value& x, std::initializer_list<std::optional<Value>> parameters) {
  const DType t = x.dtype();
  if (!is_float(t)) fail(Code::unsupported, "a normalisation of {}", name_of(t));
  for (const std::optional<Value>& p : parameters) {
    if (p && p->dtype() != t && !(size_of(t) == 2 && p->dtype() == DType::f32))
      fail(Code::unsupported, "a normalisation of {} with parameters of {}", name_of(t), name_of(p->dtype()));
  }
}

Value with_affine(Value y, const std::optional<Value>& weight, const std::optional<Value>& bias, DType t) {
  if (weight) y = y * widened(*weight);
  if (bias) y = y + widened(*bias);
  return cast(y, t);
}

std::tuple<Value, Value, Value> layer_norm(const Value& x, const Dims& shape, const std::optional<Value>& weight, const std::optional<Value>& bias, double eps) {
  require_types(x, {weight, bias});
  Value wide = widened(x);
  Axes axes = last_axes(x, shape.size());
  Value m = mean(wide, axes, keep);
  Value centred = wide - m;
  Value r = rsqrt(mean(square(centred), axes, keep) + eps);
  return {with_affine(centred * r, weight, bias, x.dtype()), m, r};
}

// Of the type it is computed in: float32 for half types too.
double smallest_step(DType t) { return t == DType::f64 ? std::numeric_limits<double>::epsilon() : static_cast<double>(std::numeric_limits<float>::epsilon()); }

Value rms_norm(const Value& x, const Dims& shape, const std::optional<Value>& weight, std::optional<double> eps) {
  Value wide = widened(x);
  double e = eps.value_or(smallest_step(x.dtype()));
  Value r = rsqrt(mean(square(wide), last_axes(x, shape.size()), keep) + e);
  return with_affine(wide * r, weight, std::nullopt, x.dtype());
}

Value per_channel(const Value& v, int64_t rank) {
  if (rank < 2) fail(Code::unsupported, "channels of a tensor of rank {}", rank);
  Dims d(static_cast<size_t>(rank), Dim(1));
  d[1] = v.dim(0);
  return reshape(widened(v), d);
}

Value group_norm(const Value& x, int64_t groups, const std::optional<Value>& weight, const std::optional<Value>& bias, double eps) {
  require_types(x, {weight, bias});
  // Places keep their axes, so that any order in memory stays visible.
  const Dim each = floordiv(x.dim(1), groups);
  Dims split{x.dim(0), Dim(groups)};
  if (!(each == Dim(1)) || x.rank() == 2) split.push_back(each);  // an axis to sum over is left
  Dims channels(split.size(), Dim(1));
  std::copy(split.begin() + 1, split.end(), channels.begin() + 1);
  split.insert(split.end(), x.dims().begin() + 2, x.dims().end());
  channels.resize(split.size(), Dim(1));
  Value wide = reshape(widened(x), std::move(split));
  const Axes axes = last_axes(wide, static_cast<size_t>(wide.rank()) - 2);
  // One factor and one addend for each channel of an image: what is done for each element is one product and one sum.
  Value m = mean(wide, axes, keep), scale = rsqrt(mean(square(wide - m), axes, keep) + eps);
  if (weight) scale = scale * reshape(widened(*weight), channels);
  const Value moved = m * scale, shift = bias ? reshape(widened(*bias), channels) - moved : 0.0 - moved;
  Value y = wide * scale + shift;
  return reshape(cast(y, x.dtype()), x.dims());
}

// By the batch's own statistics: y, mean, 1 / deviation, and the variance.
std::tuple<Value, Value, Value, Value> batch_norm_of_batch(const Value& x, const std::optional<Value>& weight, const std::optional<Value>& bias, double eps) {
  const Value wide = widened(x);
  Axes axes{0};
  for (Axis a = 2; a < x.rank(); ++a) axes.push_back(a);
  const Value m = mean(wide, axes, keep), centred = wide - m, v = mean(square(centred), axes, keep), r = rsqrt(v + eps);
  Value y = centred * r;
  if (weight) y = y * per_channel(*weight, x.rank());
  if (bias) y = y + per_channel(*bias, x.rank());
  const Dims line{x.dim(1)};
  return {cast(y, x.dtype()), reshape(m, line), reshape(r, line), reshape(v, line)};
}

Value batch_norm(const Value& x, const std::optional<Value>& weight, const std::optional<Value>& bias, const std::optional<Value>& m, const std::optional<Value>& v, bool training,
                 double eps) {
  require_types(x, {weight, bias, m, v});
  if (training && !m && !v) return std::get<0>(batch_norm_of_batch(x, weight, bias, eps));
  if (training || !m || !v) fail(Code::unsupported, "batch_norm in training mode (call model.eval() first)");
  if (x.rank() < 2) return x;  // torch accepts no elements only
  Value scale = rsqrt(widened(*v) + eps);
  if (weight) scale = scale * widened(*weight);
  const Value moved = widened(*m) * scale, shift = bias ? widened(*bias) - moved : 0.0 - moved;  // not -moved: 0 for a mean of 0
  return cast(widened(x) * per_channel(scale, x.rank()) + per_channel(shift, x.rank()), x.dtype());
}

// By the batch's statistics: y, mean, 1 / deviation, new running mean, new running variance.
std::vector<Value> batch_norm_functional(const Value& x, const std::optional<Value>& weight, const std::optional<Value>& bias, const Value& running_mean, const Value& running_var,
                                         bool training, double momentum, double eps) {
  Graph& g = x.graph();
  require_types(x, {weight, bias, running_mean, running_var});
  if (!training) {
    Value none = full(g, {Dim(0)}, 0, widened(x).dtype());
    return {batch_norm(x, weight, bias, running_mean, running_var, false, eps), none, none, running_mean, running_var};
  }
  const auto [y, flat_mean, r, flat_var] = batch_norm_of_batch(x, weight, bias, eps);
  const Dim n = floordiv(x.numel(), x.dim(1));
  Value size = cast(literal(g, n, DType::i64), flat_var.dtype());
  Value unbiased = flat_var * (size / (size - 1.0));
  auto blend = [&](const Value& old, const Value& now) { return cast(widened(old) * (1 - momentum) + now * momentum, old.dtype()); };
  return {y, flat_mean, r, blend(running_mean, flat_mean), blend(running_var, unbiased)};
}

// Batch norm's result in eval mode with `count` empty statistics, and with an empty reserve if it has a type.
std::vector<Value> with_no_statistics(const Value& y, size_t count, std::optional<DType> reserve) {
  std::vector<Value> results{y};
  results.insert(results.end(), count, full(y.graph(), {Dim(0)}, 0, widened(y).dtype()));
  if (reserve) results.push_back(full(y.graph(), {Dim(0)}, 0, *reserve));
  return results;
}

const Definition normalization_rows[] = {
    {"softmax.int(Tensor self, int dim, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return softmax(x, d, t); }},
    {"special_softmax(Tensor self, int dim, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return softmax(x, d, t); }},
    {"special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return log_softmax(x, d, t); }},
    {"_softmax(Tensor self, int dim, bool half_to_float)", [](Value x, int64_t d, bool wide) { return softmax(x, d, wide ? std::optional(DType::f32) : std::nullopt); }},
    {"_safe_softmax(Tensor self, int dim, ScalarType? dtype=None)",
     [](Value x, int64_t d, std::optional<DType> t) { return select(equal(amax(x, {d}, keep), -std::numeric_limits<double>::infinity()), 0.0, softmax(x, d, t)); }},
    {"log_softmax.int(Tensor self, int dim, ScalarType? dtype=None)", [](Value x, int64_t d, std::optional<DType> t) { return log_softmax(x, d, t); }},
    {"_log_softmax(Tensor self, int dim, bool half_to_float)", [](Value x, int64_t d, bool wide) { return log_softmax(x, d, wide ? std::optional(DType::f32) : std::nullopt); }},
    {"layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True)", Types::each,
     [](Value x, Dims shape, std::optional<Value> w, std::optional<Value> b, double eps, bool) { return std::get<0>(layer_norm(x, shape, w, b, eps)); }},
    {"native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)", Types::each,
     [](Value x, Dims shape, std::optional<Value> w, std::optional<Value> b, double eps) {
       auto [y, mean, rstd] = layer_norm(x, shape, w, b, eps);
       // On the CPU the statistics have the input's dtype, but float32 where a weight does.
       DType t = (w && w->dtype() != x.dtype()) || (b && b->dtype() != x.dtype()) ? widened(x).dtype() : x.dtype();
       return std::tuple(y, cast(mean, t), cast(rstd, t));
     }},
    {"rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None)", Types::each,
     [](Value x, Dims shape, std::optional<Value> w, std::optional<double> eps) { return rms_norm(x, shape, w, eps); }},
    {"_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps)", Types::each,
     [](Value x, Dims shape, std::optional<Value> w, std::optional<double> eps) {
       const Value wide = widened(x);
       const double e = eps.value_or(smallest_step(x.dtype()));
       return std::pair(rms_norm(x, shape, w, eps), rsqrt(mean(square(wide), last_axes(x, shape.size()), keep) + e));
     }},
    {"{_weight_norm,_weight_norm_interface}(Tensor v, Tensor g, int dim=0)", Types::same,
     [](Value v, Value g, int64_t dim) {
       if (!is_float(v.dtype())) fail(Code::unsupported, "a weight norm of {}", name_of(v.dtype()));
       Axes axes;
       for (Axis a = 0; a < v.rank(); ++a) {
         if (dim == -1 || a != v.axis(dim)) axes.push_back(a);
       }
       const Value wide = widened(v), norm = axes.empty() ? abs(wide) : sqrt(sum(square(wide), axes, keep));
       return std::pair(cast(wide * (widened(g) / norm), v.dtype()), norm);
     }},
    {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True)", Types::each,
     [](Value x, int64_t groups, std::optional<Value> w, std::optional<Value> b, double eps, bool) { return group_norm(x, groups, w, b, eps); }},
    {"batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, bool training, double, double eps, bool) {
       return batch_norm(x, w, b, m, v, training, eps);
     }},
    // What torch calls on a GPU. Behind the result come statistics for training, which are empty.
    {"cudnn_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float exponential_average_factor, float epsilon)",
     Types::each,
     [](Value x, Value w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, bool training, double, double eps) {
       return with_no_statistics(batch_norm(x, w, b, m, v, training, eps), 2, DType::u8);
     }},
    {"miopen_batch_norm(Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float exponential_average_factor, float epsilon)",
     Types::each,
     [](Value x, Value w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, bool training, double, double eps) {
       return with_no_statistics(batch_norm(x, w, b, m, v, training, eps), 2, std::nullopt);
     }},
    {"_batch_norm_no_update(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, float momentum, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, double, double eps) {
       return with_no_statistics(batch_norm(x, w, b, m, v, false, eps), 2, DType::u8);
     }},
    {"native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, bool training, double, double eps) {
       const Value y = batch_norm(x, w, b, m, v, training, eps);  // first, as it refuses
       if (!training) {
         const Value none = full(x.graph(), {Dim(0)}, 0, widened(x).dtype());
         return std::tuple(y, none, none);
       }
       const auto [same, own_mean, scale, variance] = batch_norm_of_batch(x, w, b, eps);
       return std::tuple(same, own_mean, scale);
     }},
    {"_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, Value m, Value v, bool training, double, double eps) {
       return with_no_statistics(batch_norm(x, w, b, m, v, training, eps), 2, std::nullopt);
     }},
    {"_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, bool, double, double eps) {
       require_types(x, {w, b});
       const auto [y, own_mean, scale, variance] = batch_norm_of_batch(x, w, b, eps);
       return std::tuple(y, own_mean, scale);
     }},
    {"_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, Value m, Value v, double, double eps) {
       return with_no_statistics(batch_norm(x, w, b, m, v, false, eps), 2, std::nullopt);
     }},
    {"_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps)",
     Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, Value m, Value v, bool training, double momentum, double eps) {
       return batch_norm_functional(x, w, b, m, v, training, momentum, eps);
     }},
    {"native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps)", Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, Dim n, Dim, Dim, int64_t groups, double eps) {
       Value wide = reshape(widened(x), {n, Dim(groups), floordiv(x.numel(), n * Dim(groups))});
       Value m = mean(wide, {2}), r = rsqrt(mean(square(wide - unsqueeze(m, 2)), {2}) + eps);
       return std::tuple(group_norm(x, groups, w, b, eps), cast(m, x.dtype()), cast(r, x.dtype()));
     }},
    {"instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled)",
     Types::each,
     [](Value x, std::optional<Value> w, std::optional<Value> b, std::optional<Value> m, std::optional<Value> v, bool own, double, double eps, bool) {
       if (!own) return batch_norm(x, w, b, m, v, false, eps);
       if (m || v) fail(Code::unsupported, "instance_norm that keeps running statistics (call model.eval() first)");
       auto channels = x.dim(1).constant();
       if (!channels) fail(Code::unsupported, "instance_norm of a dynamic number of channels");
       return group_norm(x, *channels, w, b, eps);
     }},
};

}  // namespace

std::span<const Definition> normalization_definitions() { return normalization_rows; }

}  // namespace ingot::ops
