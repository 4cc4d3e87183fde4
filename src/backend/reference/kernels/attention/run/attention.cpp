// The "attention" step. Operands: Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the loads of the mask's body over [batch.., S, T], the block table
// [sequences, blocks of one] of a paged cache (backend/offer.h: K is [blocks, batch.., rows, D] then), the result [batch.., S, E]. The body maps a score to the masked
// score. Sizes are the body's. In front of the result may be `filled` [sequences], the number of keys that each one has.
#include "backend/reference/kernels/attention/run/attention_args.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "backend/reference/run/body.h"
#include "base/error.h"
#include "kernels/attention/run/filled.h"
#include "kernels/run/elements.h"
#include "kernels/run/role.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Constants {
  AttentionConstants args;
  std::optional<Body> mask;
  std::vector<Role> roles;  // of all operands
};

const TensorRef& operand(const Call& call, Role role) { return call.operands[range_of(static_cast<const Constants*>(call.constants)->roles, role).first]; }

std::span<const TensorRef> loads_of_mask(const Call& call) {
  const OperandRange loads = range_of(static_cast<const Constants*>(call.constants)->roles, Role::mask);
  return call.operands.subspan(loads.count == 0 ? 0 : loads.first, loads.count);
}

struct Sizes {
  Bound mask;
  std::vector<int64_t> rows;   // batch.., S
  int64_t s, t, d, e, count;
  int64_t block;               // keys that lie one after the other: those of a block, or all
  size_t values = 0, per_worker = 0;  // bytes of scratch: for the mask's values; in all
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  FieldReader from{bytes, "the constants of an attention step"};
  attention_fields(from, c->args);
  const size_t others = attention_roles.size() + c->args.paged + c->args.filled + 1;
  const bool good = c->args.causal <= 1 && c->args.masked <= 1 && c->args.paged <= 1 && c->args.filled <= 1 && c->args.batch + 2 <= max_rank &&
                    (c->args.paged + c->args.filled == 0 || c->args.batch > 0);
  if (!good || operands < others || (c->args.masked == 0 && (operands != others || sizes != 0))) fail(Code::format, "the constants of an attention step are damaged");
  c->roles.assign(attention_roles.begin(), attention_roles.end());
  c->roles.insert(c->roles.end(), operands - others, Role::mask);
  if (c->args.paged != 0) c->roles.push_back(Role::block_table);
  if (c->args.filled != 0) c->roles.push_back(Role::filled);
  c->roles.push_back(Role::output);
  if (c->args.masked == 0) {
    from.end();
    return c;
  }
  c->mask = read_body(from, operands - others, sizes, Stores::none);
  const bool fits = c->mask->rank() == c->args.batch + size_t{2} && std::none_of(c->mask->code.begin(), c->mask->code.end(), [](const Instruction& i) {
                      return i.kind == Kind::reduce || (i.kind == Kind::accumulator && !is_float(i.dtype));
                    });
  if (!fits || !is_float(c->mask->operands.back())) fail(Code::format, "the mask of an attention step is damaged");
  return c;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &q = operand(call, Role::query), &k = operand(call, Role::key), &v = operand(call, Role::value), &out = operand(call, Role::output);
  auto z = std::make_shared<Sizes>();
  const size_t batch = c.args.batch;
  const std::array all{&q, &k, &v, &out};
  auto refuse = [] { fail(Code::format, "the operands of an attention step do not fit"); };
  const bool paged = c.args.paged != 0;
  for (const TensorRef* t : all) {
    const size_t of_blocks = paged && (t == &k || t == &v) ? 1 : 0;  // an axis of blocks in place of sequences
    if (t->rank != static_cast<int>(batch + 2) || !is_float(t->dtype) || !std::equal(q.dims + of_blocks, q.dims + batch, t->dims + of_blocks)) refuse();
  }
  z->s = q.dims[batch];
  z->d = q.dims[batch + 1];
  z->t = z->block = k.dims[batch];
  z->e = v.dims[batch + 1];
  if (paged) {
    const TensorRef& table = operand(call, Role::block_table);
    if (table.rank != 2 || table.dims[0] != q.dims[0] || (table.dtype != ir::DType::i32 && table.dtype != ir::DType::i64) || k.dims[0] != v.dims[0]) refuse();
    if (__builtin_mul_overflow(z->t, table.dims[1], &z->t)) refuse();
  }
  if (c.args.filled != 0) check_filled("attention", operand(call, Role::filled), q.dims[0]);
  if (k.dims[batch + 1] != z->d || v.dims[batch] != z->block || out.dims[batch] != z->s || out.dims[batch + 1] != z->e) refuse();
  z->rows.assign(q.dims, q.dims + batch + 1);
  z->count = 1;
  for (int64_t n : z->rows) z->count *= n;
  if (c.mask) {
    z->mask = bind(*c.mask, loads_of_mask(call), call.sizes);
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

// Where the keys, or values, of a sequence and head are.
class Rows {
 public:
  Rows(const Call& call, const TensorRef& of, int64_t block, std::span<const int64_t> batch, bool paged)
      : of_(of), table_(paged ? &operand(call, Role::block_table) : nullptr), block_(block), sequence_(batch.empty() ? 0 : batch[0]), step_(of.strides[batch.size()]) {
    for (size_t d = paged ? 1 : 0; d < batch.size(); ++d) first_ += batch[d] * of.strides[d];
  }
  // The offset of row t.
  int64_t operator()(int64_t t) const {
    if (table_ == nullptr) return first_ + t * step_;
    int64_t number = read(table_->dtype, element(*table_, sequence_ * table_->strides[0] + t / block_ * table_->strides[1])).i;
    if (number < 0) number += of_.dims[0];
    if (number < 0 || number >= of_.dims[0]) fail(Code::invalid_input, "block {} of a block table is out of range for a cache of {} blocks", number, of_.dims[0]);
    return first_ + number * of_.strides[0] + t % block_ * step_;
  }

 private:
  const TensorRef& of_;
  const TensorRef* table_;
  int64_t block_, sequence_, step_, first_ = 0;
};

// Computes one row of the result.
void row(const Call& call, std::span<int64_t> at, double* scores, Evaluator* mask) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& z = *static_cast<const Sizes*>(call.prepared);
  const TensorRef &q = operand(call, Role::query), &k = operand(call, Role::key), &v = operand(call, Role::value), &out = operand(call, Role::output);
  const size_t batch = c.args.batch;
  const bool paged = c.args.paged != 0;
  const Rows keys(call, k, z.block, at.first(batch), paged), values(call, v, z.block, at.first(batch), paged);
  const int64_t s = at[batch], in_q = offset_of(q, at.first(batch + 1));
  auto number = [](const TensorRef& t, int64_t offset) { return read(t.dtype, element(t, offset)).f; };
  const int64_t count = c.args.filled != 0 ? filled_keys(operand(call, Role::filled), at[0], z.t) : z.t, first = c.args.filled != 0 ? count - z.s : 0;
  double largest = -INFINITY, total = 0;
  for (int64_t t = 0; t < count; ++t) {
    double score = 0;
    const int64_t in_k = keys(t);
    for (int64_t d = 0; d < z.d; ++d) score += number(q, in_q + d * q.strides[batch + 1]) * number(k, in_k + d * k.strides[batch + 1]);
    score *= c.args.scale;
    at[batch + 1] = t;
    if (mask != nullptr) score = mask->element(at, {score}).f;
    if (c.args.causal != 0 && t > first + s) score = -INFINITY;
    scores[t] = score;
    largest = std::isnan(score) ? score : std::max(largest, score);
  }
  // A row without keys gives zeros.
  for (int64_t t = 0; t < count; ++t) total += scores[t] = largest == -INFINITY ? 0 : std::exp(scores[t] - largest);
  for (int64_t e = 0; e < z.e; ++e) {
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) sum += scores[t] * number(v, values(t) + e * v.strides[batch + 1]);
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
    if (c.mask) mask.emplace(z.mask, loads_of_mask(call), reinterpret_cast<Value*>(scratch));
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
