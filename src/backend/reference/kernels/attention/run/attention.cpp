// The "attention" step. Operands: Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the loads of the mask's body over [batch.., S, T], the result
// [batch.., S, E]. The body maps a score to the masked score. Sizes are the body's.
#include "backend/reference/kernels/attention/run/attention_args.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backend/reference/run/body.h"
#include "base/error.h"
#include "kernels/run/elements.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Constants {
  AttentionConstants args;
  std::optional<Body> mask;
};

struct Sizes {
  Bound mask;
  std::vector<int64_t> rows;   // batch.., S
  int64_t s, t, d, e, count;
  size_t values = 0, per_worker = 0;  // bytes of scratch: for the mask's values; in all
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  FieldReader from{bytes, "the constants of an attention step"};
  attention_fields(from, c->args);
  if (c->args.causal > 1 || c->args.masked > 1 || c->args.batch + 2 > max_rank || operands < 4 || (c->args.masked == 0 && (operands != 4 || sizes != 0)))
    fail(Code::format, "the constants of an attention step are damaged");
  if (c->args.masked == 0) {
    from.end();
    return c;
  }
  c->mask = read_body(from, operands - 4, sizes, Stores::none);
  const bool fits = c->mask->rank() == c->args.batch + size_t{2} && std::none_of(c->mask->code.begin(), c->mask->code.end(), [](const Instruction& i) {
                      return i.kind == Kind::reduce || (i.kind == Kind::accumulator && !is_float(i.dtype));
                    });
  if (!fits || !is_float(c->mask->operands.back())) fail(Code::format, "the mask of an attention step is damaged");
  return c;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &q = call.operands[0], &k = call.operands[1], &v = call.operands[2], &out = call.operands.back();
  auto z = std::make_shared<Sizes>();
  const size_t batch = c.args.batch;
  const std::array all{&q, &k, &v, &out};
  auto refuse = [] { fail(Code::format, "the operands of an attention step do not fit"); };
  for (const TensorRef* t : all) {
    if (t->rank != static_cast<int>(batch + 2) || !is_float(t->dtype) || !std::equal(q.dims, q.dims + batch, t->dims)) refuse();
  }
  z->s = q.dims[batch];
  z->d = q.dims[batch + 1];
  z->t = k.dims[batch];
  z->e = v.dims[batch + 1];
  if (k.dims[batch + 1] != z->d || v.dims[batch] != z->t || out.dims[batch] != z->s || out.dims[batch + 1] != z->e) refuse();
  z->rows.assign(q.dims, q.dims + batch + 1);
  z->count = 1;
  for (int64_t n : z->rows) z->count *= n;
  if (c.mask) {
    z->mask = bind(*c.mask, call.operands.subspan(3, call.operands.size() - 4), call.sizes);
    if (!std::equal(z->rows.begin(), z->rows.end(), z->mask.domain.begin()) || z->mask.domain.back() != z->t) refuse();
    z->values = (c.mask->code.size() * sizeof(Value) + 63) / 64 * 64;
  }
  z->per_worker = z->values + (static_cast<size_t>(z->t) * sizeof(double) + 63) / 64 * 64;
  const size_t scratch = static_cast<size_t>(call.workers->count()) * z->per_worker;
  return {scratch, std::move(z)};
}

int64_t offset_of(const TensorRef& t, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.strides[d];
  return offset;
}

// Computes one row of the result.
void row(const Call& call, std::span<int64_t> at, double* scores, Evaluator* mask) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& z = *static_cast<const Sizes*>(call.prepared);
  const TensorRef &q = call.operands[0], &k = call.operands[1], &v = call.operands[2], &out = call.operands.back();
  const size_t batch = c.args.batch;
  const int64_t s = at[batch], in_q = offset_of(q, at.first(batch + 1)), in_k = offset_of(k, at.first(batch)), in_v = offset_of(v, at.first(batch));
  auto number = [](const TensorRef& t, int64_t offset) { return read(t.dtype, element(t, offset)).f; };
  double largest = -INFINITY, total = 0;
  for (int64_t t = 0; t < z.t; ++t) {
    double score = 0;
    for (int64_t d = 0; d < z.d; ++d) score += number(q, in_q + d * q.strides[batch + 1]) * number(k, in_k + t * k.strides[batch] + d * k.strides[batch + 1]);
    score *= c.args.scale;
    at[batch + 1] = t;
    if (mask != nullptr) score = mask->element(at, {score}).f;
    if (c.args.causal != 0 && t > s) score = -INFINITY;
    scores[t] = score;
    largest = std::isnan(score) ? score : std::max(largest, score);
  }
  // A row without keys gives zeros.
  for (int64_t t = 0; t < z.t; ++t) total += scores[t] = largest == -INFINITY ? 0 : std::exp(scores[t] - largest);
  for (int64_t e = 0; e < z.e; ++e) {
    double sum = 0;
    for (int64_t t = 0; t < z.t; ++t) sum += scores[t] * number(v, in_v + t * v.strides[batch] + e * v.strides[batch + 1]);
    const double result = total == 0 ? 0 : sum / total;
    with_element(out.dtype, [&](auto type) {
      using E = decltype(type);
      if constexpr (std::is_same_v<typename E::Number, double>) E::put(element(out, offset_of(out, at.first(batch + 1)) + e * out.strides[batch + 1]), result);
    });
  }
}

void run(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& z = *static_cast<const Sizes*>(call.prepared);
  const int64_t tasks = std::min<int64_t>(z.count, 64);
  call.workers->run(tasks, [&](int64_t task, int worker) {
    std::byte* scratch = call.scratch + static_cast<size_t>(worker) * z.per_worker;
    std::optional<Evaluator> mask;
    if (c.mask) mask.emplace(z.mask, call.operands.subspan(3, call.operands.size() - 4), reinterpret_cast<Value*>(scratch));
    std::array<int64_t, max_rank> at{};
    for (int64_t n = z.count * task / tasks; n < z.count * (task + 1) / tasks; ++n) {
      backend::reference::coordinates(n, z.rows, std::span(at.data(), z.rows.size()));
      row(call, std::span(at.data(), z.rows.size() + 1), reinterpret_cast<double*>(scratch + z.values), mask ? &*mask : nullptr);
    }
  });
}

}  // namespace

std::span<const RunKernel> attention_reference_kernels() {
  static constexpr RunKernel list[] = {{"attention", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
