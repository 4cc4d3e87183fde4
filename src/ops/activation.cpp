// Activation functions.
#include "base/error.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

Value parametric_relu(const Value& x, const Value& w) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "prelu is for floating-point numbers, not {}", name_of(x.dtype()));
  return select(x > 0, x, x * w);
}

// Dropout that drops nothing gives its operand itself, in place too.
Value dropped(const Value& x, double p, bool train) {
  if (train && p > 0) fail(Code::unsupported, "dropout in training mode draws random numbers, which only torch's generator gives (call model.eval() first, or compile in Python with fallback=\"error\": the engine draws its own)");
  return x;
}

const Definition activation_rows[] = {
    {"relu(Tensor self)", Types::numbers, [](Value x) { return relu(x); }},
    {"relu6(Tensor self)", [](Value x) { return clamp(x, Operand(0), Operand(6)); }},
    {"{sigmoid,special_expit}(Tensor self)", [](Value x) { return sigmoid(x); }},
    {"log_sigmoid(Tensor self)", [](Value x) { return -softplus(-x); }},
    {"log_sigmoid_forward(Tensor self)", [](Value x) { return std::pair(-softplus(-x), full(x.graph(), {Dim(0)}, 0, x.dtype())); }},
    {"silu(Tensor self)", [](Value x) { return silu(x); }},
    {"mish(Tensor self)", [](Value x) { return x * tanh(softplus(x)); }},
    {"gelu(Tensor self, *, str approximate='none')",
     [](Value x, std::string approximate) {
       if (approximate == "none") return gelu(x);
       if (approximate == "tanh") return gelu_tanh(x);
       fail(Code::invalid_input, "gelu: approximate \"{}\" is neither \"none\" nor \"tanh\"", approximate);
     }},
    {"hardswish(Tensor self)", [](Value x) { return x * clamp(x + 3, Operand(0), Operand(6)) / 6; }},
    {"hardsigmoid(Tensor self)", [](Value x) { return clamp(x + 3, Operand(0), Operand(6)) / 6; }},
    {"hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1)", [](Value x, Scalar lo, Scalar hi) { return cast(clamp(x, Operand(lo), Operand(hi)), x.dtype()); }},
    {"leaky_relu(Tensor self, Scalar negative_slope=0.01)", [](Value x, Scalar slope) { return select(x > 0, x, x * Operand(slope)); }},
    // In training mode the slope is drawn.
    {"rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False)",
     [](Value x, Scalar lower, Scalar upper, bool training) {
       if (training) fail(Code::unsupported, "rrelu in training mode (call model.eval() first)");
       if (!is_float(x.dtype())) fail(Code::unsupported, "rrelu of {}", name_of(x.dtype()));
       return select(x > 0, x, x * Operand((lower.to_double() + upper.to_double()) / 2));
     }},
    {"elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)",
     [](Value x, Scalar alpha, Scalar scale, Scalar input) {
       return select(x < 0, expm1(x * Operand(input)) * Operand(alpha.to_double() * scale.to_double()), x * Operand(scale));
     }},
    {"celu(Tensor self, Scalar alpha=1.0)", [](Value x, Scalar alpha) { return select(x < 0, expm1(x / Operand(alpha)) * Operand(alpha), x); }},
    {"selu(Tensor self)", [](Value x) { return select(x < 0, expm1(x) * (1.0507009873554805 * 1.6732632423543772), x * 1.0507009873554805); }},
    {"softplus(Tensor self, Scalar beta=1, Scalar threshold=20)",
     [](Value x, Scalar beta, Scalar threshold) {
       Value b = x * Operand(beta);
       return select(b > Operand(threshold), x, softplus(b) / Operand(beta));
     }},
    {"softshrink(Tensor self, Scalar lambd=0.5)",
     [](Value x, Scalar l) {
       double v = l.to_double();
       if (size_of(x.dtype()) != 2) return x - clamp(x, Operand(-v), Operand(v));  // 0 in between; for halves -0 too, as eager has it
       return select(x > v, x - v, select(x < -v, x + v, x * 0));
     }},
    {"hardshrink(Tensor self, Scalar lambd=0.5)", Types::only_floats,
     [](Value x, Scalar l) {
       double v = l.to_double();
       return select((x >= -v) & (x <= v), 0, x);
     }},
    {"threshold(Tensor self, Scalar threshold, Scalar value)",
     [](Value x, Scalar t, Scalar v) {
       if (is_bool(x.dtype())) fail(Code::unsupported, "threshold of bools");
       return cast(select(x <= Operand(t), Operand(v), x), x.dtype());
     }},
    {"prelu(Tensor self, Tensor weight)", Types::same,
     [](Value x, Value w) {
       if (w.rank() == 1 && x.rank() != 1) {
         Dims dims(static_cast<size_t>(x.rank()), Dim(1));
         if (x.rank() > 1) dims[1] = w.dim(0);
         w = reshape(w, dims);
       }
       return parametric_relu(x, w);
     }},
    {"_prelu_kernel(Tensor self, Tensor weight)", Types::same, [](Value x, Value w) { return parametric_relu(x, w); }},
    {"glu(Tensor self, int dim=-1)",
     [](Value x, int64_t dim) {
       Dim half = floordiv(x.dim(dim), 2);
       return slice(x, dim, Dim(0), half, 1) * sigmoid(slice(x, dim, half, std::nullopt, 1));
     }},
    {"{dropout,feature_dropout,alpha_dropout,feature_alpha_dropout}(Tensor input, float p, bool train)", [](Value x, double p, bool train) { return dropped(x, p, train); }},
    {"{dropout_,feature_dropout_,alpha_dropout_,feature_alpha_dropout_}(Tensor self, float p, bool train)", [](Value x, double p, bool train) { return dropped(x, p, train); }},
    {"native_dropout(Tensor input, float p, bool? train)",
     [](Value x, double p, std::optional<bool> train) { return std::pair(dropped(x, p, train.value_or(true)), full(x.graph(), x.dims(), true, DType::b8)); }},
};

}  // namespace

std::span<const Definition> activation_definitions() { return activation_rows; }

}  // namespace ingot::ops
