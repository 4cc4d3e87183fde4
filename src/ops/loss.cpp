// Losses: a number for each element or row, and their mean or sum.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// torch's numbers for what a loss does with its elements.
enum Reduction : int64_t { none = 0, mean_of_all = 1, sum_of_all = 2 };

Reduction reduction_of(int64_t number) {
  if (number < none || number > sum_of_all) fail(Code::invalid_input, "a loss with reduction {}", number);
  return static_cast<Reduction>(number);
}

// Elements are rounded to the result's type before they are added, as in eager: of half types they may overflow.
Value reduced(const Value& given, int64_t reduction, DType t) {
  const Value each = cast(given, t);
  switch (reduction_of(reduction)) {
    case none: return each;
    case mean_of_all: return cast(mean(widened(each), {}), t);
    default: return cast(sum(widened(each), {}), t);
  }
}

void require_float(const Value& x, const char* name) {
  if (!is_float(x.dtype())) fail(Code::unsupported, "{} of {}", name, name_of(x.dtype()));
}

// ---- of two tensors, element by element

Value squared_error(const Value& a, const Value& b, int64_t reduction) {
  require_float(a, "mse_loss");
  return reduced(square(widened(a) - widened(b)), reduction, a.dtype());
}

Value smooth_l1(const Value& a, const Value& b, int64_t reduction, double beta) {
  require_float(a, "smooth_l1_loss");
  const Value d = abs(widened(a) - widened(b));
  return reduced(beta == 0 ? d : select(d < beta, square(d) * 0.5 / beta, d - 0.5 * beta), reduction, a.dtype());
}

// The first operand decides the result's type, and the type they are computed in is that of both.
template <class F>
Value of_first(const Value& a, const Value& b, int64_t reduction, const char* name, F each) {
  require_float(a, name);
  const DType t = ir::result_type(std::vector<Operand>{a, b});
  if (b.rank() > a.rank()) fail(Code::unsupported, "{} of rank {} with a target of rank {}", name, a.rank(), b.rank());
  return reduced(each(widened(cast(a, t)), widened(cast(b, t))), reduction, a.dtype());
}

Value binary_cross_entropy(const Value& x, const Value& target, const std::optional<Value>& weight, int64_t reduction) {
  require_float(x, "binary_cross_entropy");
  if (x.dims() != target.dims()) fail(Code::unsupported, "binary_cross_entropy of a target of another shape");  // torch gives numbers without a meaning
  const Value p = widened(x), y = widened(target);
  const Value each = (y - 1.0) * maximum(log1p(-p), -100.0) - y * maximum(log(p), -100.0);
  return reduced(weight ? each * widened(*weight) : each, reduction, x.dtype());
}

Value binary_cross_entropy_of_logits(const Value& given, const Value& target, const std::optional<Value>& weight, const std::optional<Value>& positive, int64_t reduction) {
  require_float(given, "binary_cross_entropy_with_logits");
  const Value x = widened(given), y = widened(target), minus_log = softplus(-x);
  Value each = (1.0 - y) * x + (positive ? (y * (widened(*positive) - 1.0) + 1.0) * minus_log : minus_log);
  if (weight) each = each * widened(*weight);
  return reduced(each, reduction, given.dtype());
}

// ---- of rows of classes

// A row is an axis of classes: the second one, or the only one.
Axis class_axis(const Value& x) { return x.rank() == 1 ? 0 : 1; }

// The classes as torch takes them.
Value classes(const Value& target) {
  if (target.dtype() != DType::i64 && target.dtype() != DType::u8) fail(Code::unsupported, "classes of dtype {}; int64 is needed", name_of(target.dtype()));
  return cast(target, DType::i64);
}

struct Weighted {
  Value losses, weights;  // of each row; 0 where the class is ignored
};

// Minus the element of each row that its class names, times the class's weight.
Weighted of_classes(const Value& x, const Value& target, const std::optional<Value>& weight, int64_t ignored) {
  require_float(x, "nll_loss");
  if (x.rank() == 0) fail(Code::unsupported, "nll_loss of a tensor without axes");
  if (weight && weight->dtype() != x.dtype()) fail(Code::unsupported, "nll_loss of {} with weights of {}", name_of(x.dtype()), name_of(weight->dtype()));
  const Axis axis = class_axis(x);
  Dims rows = x.dims();
  rows.erase(rows.begin() + axis);
  if (target.rank() != static_cast<int64_t>(rows.size())) fail(Code::unsupported, "nll_loss of rank {} with classes of rank {}", x.rank(), target.rank());
  for (size_t i = 0; i < rows.size(); ++i) require(x.graph(), target.dims()[i], Check::equal, rows[i], "each row has a class");
  const Value given = classes(target), counts = not_equal(given, ignored), number = select(counts, given, 0);
  const Value picked = squeeze(take_along(widened(x), axis, unsqueeze(number, axis)), axis);
  const Value factor = weight ? gather(widened(*weight), {0}, {number}, 0, false) : full(x.graph(), rows, 1.0, picked.dtype());
  return {select(counts, -picked * factor, 0.0), select(counts, factor, 0.0)};
}

// The loss and the sum of the weights. The mean is that of the weights: nan where all classes are ignored.
std::pair<Value, Value> nll_loss(const Value& x, const Value& target, const std::optional<Value>& weight, int64_t reduction, int64_t ignored) {
  const Weighted w = of_classes(x, target, weight, ignored);
  const DType t = x.dtype();
  if (reduction_of(reduction) == none) return {cast(w.losses, t), full(x.graph(), {}, 0.0, t)};
  const Value total = sum(w.weights, {}), losses = sum(w.losses, {});
  return {cast(reduction == mean_of_all ? losses / total : losses, t), cast(total, t)};
}

Value log_softmax(const Value& x, Axis axis) {
  const Value wide = widened(x), shifted = wide - amax(wide, {axis}, keep);
  return shifted - log(sum(exp(shifted), {axis}, keep));
}

// The weight of each class along the axis of classes.
Value along_classes(const Value& weight, const Value& x) {
  Dims line(x.dims().size(), Dim(1));
  line[static_cast<size_t>(class_axis(x))] = weight.numel();
  return reshape(widened(weight), line);
}

// Against the probability of each class.
Value against_probabilities(const Value& logs, Value target, const std::optional<Value>& weight, int64_t reduction, double smoothing) {
  Graph& g = logs.graph();
  const Axis axis = class_axis(logs);
  const Dim count = logs.dim(axis);
  if (target.rank() != logs.rank()) fail(Code::unsupported, "cross_entropy_loss of rank {} with probabilities of rank {}", logs.rank(), target.rank());
  for (Axis a = 0; a < logs.rank(); ++a) require(g, logs.dim(a), Check::equal, target.dim(a), "each class has a probability");
  target = widened(target);
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / literal(g, count, logs.dtype());
  Value each = logs * target;
  if (weight) each = each * along_classes(*weight, logs);
  if (reduction_of(reduction) == none) return -sum(each, {axis});
  const Value total = -sum(each, {});
  return reduction == mean_of_all ? total / literal(g, floordiv(logs.numel(), count), logs.dtype()) : total;
}

Value cross_entropy(const Value& x, const Value& target, const std::optional<Value>& weight, int64_t reduction, int64_t ignored, double smoothing) {
  require_float(x, "cross_entropy_loss");
  const Axis axis = class_axis(x);
  const Value logs = log_softmax(x, axis);
  if (is_float(target.dtype())) {
    if (ignored >= 0) fail(Code::unsupported, "cross_entropy_loss: ignore_index with probabilities");
    return cast(against_probabilities(logs, target, weight, reduction, smoothing), ir::result_type(std::vector<Operand>{x, target}));
  }
  const std::optional<Value> wide = weight ? std::optional(widened(*weight)) : std::nullopt;
  if (smoothing == 0) return cast(nll_loss(logs, target, wide, reduction, ignored).first, x.dtype());
  // A share of the loss is spread over all classes.
  const Weighted w = of_classes(logs, target, wide, ignored);
  const Value spread = select(not_equal(classes(target), ignored), -sum(wide ? logs * along_classes(*wide, logs) : logs, {axis}), 0.0);
  const Value each = w.losses * (1 - smoothing) + spread * (smoothing / literal(x.graph(), x.dim(axis), logs.dtype()));
  if (reduction_of(reduction) == none) return cast(each, x.dtype());
  const Value total = sum(each, {});
  return cast(reduction == mean_of_all ? total / sum(w.weights, {}) : total, x.dtype());
}

// [C] as [1, C].
Value as_rows(const Value& x) { return x.rank() == 2 ? x : reshape(x, {Dim(1), x.numel()}); }

// How far each element is above that of the row's class less the margin.
Value multi_margin(const Value& given, const Value& target, double p, double margin, const std::optional<Value>& weight, int64_t reduction) {
  require_float(given, "multi_margin_loss");
  if (p != 1 && p != 2) fail(Code::invalid_input, "multi_margin_loss: p = {} is neither 1 nor 2", p);
  if (target.dtype() != DType::i64) fail(Code::unsupported, "classes of dtype {}; int64 is needed", name_of(target.dtype()));
  const Value x = widened(as_rows(given)), number = reshape(target, {x.dim(0)});
  const Value over = maximum(x + (margin - take_along(x, 1, unsqueeze(number, 1))), 0.0);
  Value each = p == 1 ? over : square(over);
  if (weight) each = each * unsqueeze(gather(widened(*weight), {0}, {number}, 0, false), 1);
  const Value others = not_equal(ir::index(x.graph(), x.dims(), 1), unsqueeze(number, 1));
  const Value rows = sum(select(others, each, 0.0), {1}) / literal(x.graph(), x.dim(1), x.dtype());
  const Value y = reduced(rows, reduction, given.dtype());
  return given.rank() < 2 && y.rank() == 1 ? reshape(y, {}) : y;
}

// Each row lists its classes, up to the first negative number. The second result tells for each element whether it is one of them.
std::pair<Value, Value> multilabel_margin(const Value& given, const Value& given_target, int64_t reduction) {
  require_float(given, "multilabel_margin_loss");
  if (given_target.dtype() != DType::i64) fail(Code::unsupported, "classes of dtype {}; int64 is needed", name_of(given_target.dtype()));
  const Value x = widened(as_rows(given)), target = as_rows(given_target);
  Graph& g = x.graph();
  for (Axis a = 0; a < 2; ++a) require(g, target.dim(a), Check::equal, x.dim(a), "a multilabel margin has as many classes listed as elements");
  const Value listed = equal(scan("max", cast(target < 0, DType::i64), 1), 0), number = select(listed, target, 0);
  const Value is_target = reduce("any", unsqueeze(listed, 2) & equal(unsqueeze(number, 2), ir::index(g, {Dim(1), Dim(1), x.dim(1)}, 2)), {1}, drop);
  const Value over = maximum(1.0 - unsqueeze(take_along(x, 1, number), 2) + unsqueeze(x, 1), 0.0);
  const Value counted = unsqueeze(listed, 2) & logical_not(unsqueeze(is_target, 1));
  const Value rows = sum(select(counted, over, 0.0), {1, 2}) / literal(g, x.dim(1), x.dtype());
  const Value y = reduced(rows, reduction, given.dtype());
  return {given.rank() < 2 && y.rank() == 1 ? reshape(y, {}) : y, cast(reshape(is_target, given.dims()), given.dtype())};
}

// ---- connectionist temporal classification

// More steps than this make a plan whose build takes minutes.
constexpr int64_t max_ctc_steps = 2048;

using Numbers = std::vector<int64_t>;

int64_t largest(const Numbers& numbers) { return numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()); }

Value as_tensor(Graph& g, const Numbers& numbers) {
  std::vector<Value> parts;
  for (int64_t n : numbers) parts.push_back(full(g, {Dim(1)}, n, DType::i64));
  return parts.empty() ? full(g, {Dim(0)}, 0, DType::i64) : concat(std::move(parts), 0);
}

// The labels of each sequence with blanks around them: [N, 2 S + 1]. Targets are rows, or follow one another.
Value with_blanks(const Value& targets, const Value& lengths, const Dim& max_length, int64_t blank) {
  Graph& g = targets.graph();
  const Dim n = lengths.dim(0), states = max_length * 2 + Dim(1);
  const Value state = ir::index(g, {n, states}, 1), place = ir::map(Op::floordiv, {state, 2});
  const Value inside = cast(ir::map(Op::mod, {state, 2}), DType::b8) & (place < unsqueeze(lengths, 1));
  const Value labels = cast(targets, DType::i64);
  if (targets.numel() == Dim(0)) return full(g, {n, states}, blank, DType::i64);
  const Value first = targets.rank() == 2 ? iota(g, n) * Operand(targets.dim(1)) : scan("sum", lengths, 0) - lengths;
  return select(inside, gather(reshape(labels, {labels.numel()}), {0}, {select(inside, unsqueeze(first, 1) + place, 0)}, 0, false), blank);
}

// Minus the logarithm of the probability of each sequence of labels, over all ways to lay it out in time (Graves and others, 2006, equations 6 to 8). What training reads is left out.
Value ctc(const Value& given, const Value& targets, const Value& input_lengths, const Value& given_target_lengths, const Dim& max_length, int64_t blank) {
  if (given.dtype() != DType::f32 && given.dtype() != DType::f64) fail(Code::unsupported, "_ctc_loss of {}", name_of(given.dtype()));
  if (targets.dtype() != DType::i64 && targets.dtype() != DType::i32) fail(Code::unsupported, "classes of dtype {}; int64 is needed", name_of(targets.dtype()));
  if (given.rank() != 3) fail(Code::unsupported, "_ctc_loss of rank {}", given.rank());
  Graph& g = given.graph();
  const auto steps = given.dim(0).constant();
  if (!steps) fail(Code::unsupported, "_ctc_loss over a number of steps that is open");
  if (*steps == 0 || *steps > max_ctc_steps) fail(Code::unsupported, "_ctc_loss over {} steps", *steps);
  const Value times = unsqueeze(cast(input_lengths, DType::i64), 1), lengths = cast(given_target_lengths, DType::i64), ends = unsqueeze(lengths, 1);
  const Value labels = with_blanks(targets, lengths, max_length, blank);
  const Dims states = labels.dims();
  const Value logs = take_along(given, 2, expand(unsqueeze(labels, 0), {given.dim(0), states[0], states[1]}));
  const Value state = ir::index(g, states, 1);
  auto before = [&](const Value& x, int64_t by, const Scalar& fill) { return slice(pad(x, {0, by}, {0, 0}, fill), 1, Dim(0), states[1], 1); };
  const Value skips = not_equal(labels, before(labels, 2, blank));  // a label after another one needs no blank in between
  Value y = select((state < 2) & (state <= ends * 2), take(logs, 0, 0), -INFINITY);
  auto log_of_sum = [&](const std::vector<Value>& terms) {
    Value most_likely = terms[0];
    for (const Value& t : terms) most_likely = maximum(most_likely, t);
    const Value shift = select(equal(most_likely, -INFINITY), 0.0, most_likely);
    Value total = exp(terms[0] - shift);
    for (size_t i = 1; i < terms.size(); ++i) total = total + exp(terms[i] - shift);
    return log(total) + shift;
  };
  for (int64_t t = 1; t < *steps; ++t) {
    const Value next = log_of_sum({y, before(y, 1, -INFINITY), select(skips, before(y, 2, -INFINITY), -INFINITY)}) + take(logs, 0, t);
    y = select(times > t, next, y);
  }
  const Value last = take_along(y, 1, ends * 2), label = select(ends > 0, take_along(y, 1, maximum(ends * 2 - 1, 0)), -INFINITY);
  const Value likelihood = select(times > 0, log_of_sum({last, label}), select(equal(ends, 0), 0.0, -INFINITY));
  return -squeeze(likelihood, 1);
}

std::pair<Value, Value> ctc_of_lists(const Value& logs, const Value& targets, const Numbers& inputs, const Numbers& lengths, int64_t blank) {
  Graph& g = logs.graph();
  return {ctc(logs, targets, as_tensor(g, inputs), as_tensor(g, lengths), largest(lengths), blank), full(g, {}, false, DType::b8)};
}

std::pair<Value, Value> ctc_of_tensors(const Value& logs, const Value& targets, const Value& inputs, const Value& lengths, int64_t blank) {
  return {ctc(logs, targets, inputs, lengths, targets.dim(-1), blank), full(logs.graph(), {}, false, DType::b8)};
}

// The loss of one sequence or of several, [T, C] or [T, N, C].
Value ctc_loss(Value logs, const Value& targets, Value inputs, Value lengths, const Dim& max_length, int64_t blank, int64_t reduction, bool zero_infinity) {
  const bool alone = logs.rank() == 2;
  if (alone) {
    logs = unsqueeze(logs, 1);
    inputs = reshape(inputs, {Dim(1)});
    lengths = reshape(lengths, {Dim(1)});
  }
  Value y = ctc(logs, targets, inputs, lengths, max_length, blank);
  if (zero_infinity) y = select(equal(y, INFINITY), 0.0, y);
  if (reduction_of(reduction) == mean_of_all) return mean(y / cast(maximum(lengths, 1), y.dtype()), {});
  return reduction == sum_of_all ? sum(y, {}) : alone ? reshape(y, {}) : y;
}

const Definition loss_rows[] = {
    {"mse_loss(Tensor self, Tensor target, int reduction=1)", Types::common, [](Value a, Value b, int64_t r) { return squared_error(a, b, r); }},
    {"smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0)", Types::common,
     [](Value a, Value b, int64_t r, double beta) { return smooth_l1(a, b, r, beta); }},
    {"huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0)", Types::each,
     [](Value a, Value b, int64_t r, double delta) {
       return of_first(a, b, r, "huber_loss", [&](const Value& x, const Value& y) {
         const Value d = abs(x - y);
         return select(d <= delta, square(d) * 0.5, (d - 0.5 * delta) * delta);
       });
     }},
    {"soft_margin_loss(Tensor self, Tensor target, int reduction=1)", Types::each,
     [](Value a, Value b, int64_t r) {
       const DType t = a.dtype();  // of half types the power is infinite where eager's is
       return of_first(a, b, r, "soft_margin_loss", [t](const Value& x, const Value& y) { return log1p(widened(cast(exp(-x * y), t))); });
     }},
    {"binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1)", Types::same,
     [](Value x, Value y, std::optional<Value> w, int64_t r) { return binary_cross_entropy(x, y, w, r); }},
    {"binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1)", Types::same,
     [](Value x, Value y, std::optional<Value> w, std::optional<Value> positive, int64_t r) { return binary_cross_entropy_of_logits(x, y, w, positive, r); }},
    {"{nll_loss,nll_loss2d,nll_loss_nd}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100)", Types::each,
     [](Value x, Value y, std::optional<Value> w, int64_t r, int64_t ignored) { return nll_loss(x, y, w, r, ignored).first; }},
    {"{nll_loss_forward,nll_loss2d_forward}(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index)", Types::each,
     [](Value x, Value y, std::optional<Value> w, int64_t r, int64_t ignored) { return nll_loss(x, y, w, r, ignored); }},
    {"cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.0)", Types::each,
     [](Value x, Value y, std::optional<Value> w, int64_t r, int64_t ignored, double smoothing) { return cross_entropy(x, y, w, r, ignored, smoothing); }},
    {"multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1)", Types::each,
     [](Value x, Value y, Scalar p, Scalar margin, std::optional<Value> w, int64_t r) { return multi_margin(x, y, p.to_double(), margin.to_double(), w, r); }},
    {"multilabel_margin_loss(Tensor self, Tensor target, int reduction=1)", Types::each, [](Value x, Value y, int64_t r) { return multilabel_margin(x, y, r).first; }},
    {"multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction)", Types::each, [](Value x, Value y, int64_t r) { return multilabel_margin(x, y, r); }},
    {"_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, bool zero_infinity=False)", Types::each,
     [](Value logs, Value targets, Numbers inputs, Numbers lengths, int64_t blank, bool) { return ctc_of_lists(logs, targets, inputs, lengths, blank); }},
    {"_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, bool zero_infinity=False)", Types::each,
     [](Value logs, Value targets, Value inputs, Value lengths, int64_t blank, bool) { return ctc_of_tensors(logs, targets, inputs, lengths, blank); }},
    {"ctc_loss.IntList(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, int reduction=1, bool zero_infinity=False)", Types::each,
     [](Value logs, Value targets, Numbers inputs, Numbers lengths, int64_t blank, int64_t r, bool zero) {
       Graph& g = logs.graph();
       return ctc_loss(logs, targets, as_tensor(g, inputs), as_tensor(g, lengths), largest(lengths), blank, r, zero);
     }},
    {"ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, int reduction=1, bool zero_infinity=False)", Types::each,
     [](Value logs, Value targets, Value inputs, Value lengths, int64_t blank, int64_t r, bool zero) {
       return ctc_loss(logs, targets, inputs, lengths, targets.dim(-1), blank, r, zero);
     }},
    {"_cudnn_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank, bool deterministic, bool zero_infinity)", Types::each,
     [](Value logs, Value targets, Numbers inputs, Numbers lengths, int64_t blank, bool, bool zero) {
       auto [y, unread] = ctc_of_lists(logs, targets, inputs, lengths, blank);
       return std::pair(zero ? select(equal(y, INFINITY), 0.0, y) : y, unread);
     }},
};

}  // namespace

std::span<const Definition> loss_definitions() { return loss_rows; }

}  // namespace ingot::ops
