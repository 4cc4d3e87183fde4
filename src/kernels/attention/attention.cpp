#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/compose.h"
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// Two GEMMs and a softmax. Scores and probabilities are f32 (f64 for f64).
std::vector<ValueId> expand(Graph& to, const Node& node, const std::vector<ValueId>& in) {
  const AttentionInputs of = attention_inputs(node, in);
  Handle q(&to, of.query), k(&to, of.key), v(&to, of.value);
  DType type = q.dtype(), exact = compute_type(type);
  Handle scores = cast(matmul(q, transpose(k, -1, -2)), exact) * node.attributes.number("scale");
  const double low = -std::numeric_limits<double>::infinity();
  if (of.mask != none_id) {
    Handle mask(&to, of.mask);
    scores = mask.dtype() == DType::b8 ? select(mask, scores, low) : scores + cast(mask, exact);
  }
  const Dims square{scores.dim(-2), scores.dim(-1)};
  const Handle query = index(to, square, 0), key = index(to, square, 1);
  if (of.filled != none_id) {
    // [sequences, 1.., 1]
    Dims one(scores.dims().size(), Dim(1));
    one[0] = scores.dim(0);
    const Handle filled = reshape(Handle(&to, of.filled), one);
    scores = select(key < filled, scores, low);
    if (node.attributes.boolean("causal")) scores = select(key <= filled - Operand(q.dim(-2)) + query, scores, low);
  } else if (node.attributes.boolean("causal")) {
    scores = select(key <= query, scores, low);
  }
  // A row without keys gives 0: its maximum is -inf, and is not subtracted.
  Handle largest = amax(scores, {-1}, keep);
  Handle e = exp(scores - select(equal(largest, low), 0.0, largest));
  Handle total = sum(e, {-1}, keep);
  return {matmul(cast(e / select(equal(total, 0.0), 1.0, total), type), v).id()};
}

// All pages of each sequence, one after the other: [sequences, batch.., T, D] of [pages, batch.., P, D].
Handle all_pages(const Handle& pool, const Handle& table) {
  Handle x = gather(pool, {0}, {table}, 0, true);  // [sequences, C, batch.., P, D]
  Axes order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), Axis{0});
  std::rotate(order.begin() + 1, order.begin() + 2, order.end() - 2);
  x = permute(x, order);
  Dims dims = x.dims();
  dims.erase(dims.end() - 3);
  dims[dims.size() - 2] = table.dim(1) * pool.dim(-2);
  return reshape(x, dims);
}

Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const DType type = c.one_of({DType::f32, DType::f16});
  const Dim batch = c.one_of<int64_t>({1, 2, 3}), heads = c.one_of<int64_t>({1, 2, 4}), s = c.size(), d = c.one_of<int64_t>({8, 16, 32, 64}),
            e = c.one_in(4) ? c.size() : d.value();
  const bool causal = c.one_in(3), paged = !causal && c.one_in(2);
  const Dim columns = c.one_of<int64_t>({1, 2, 5}), rows = paged ? c.one_of<int64_t>({3, 16, 32}) : c.size(), pages = 7;
  const Dim t = paged ? columns * rows : causal ? s : rows;
  const Dim kept = c.one_in(3) ? Dim(1) : heads;  // heads may share keys and values
  const Handle q = c.input("q", type, {batch, heads, s, d});
  // Pages may have another type: int8 with a scale for each row, or another type of floats.
  const DType stored = paged ? c.one_of({type, DType::i8, DType::f16, DType::f32}) : type;
  Handle k = c.input("k", stored, {paged ? pages : batch, kept, paged ? rows : t, d}), v = c.input("v", stored, {paged ? pages : batch, kept, paged ? rows : t, e});
  if (paged) {
    const Handle table = minimum(maximum(c.input("table", DType::i64, {batch, columns}), Operand(-pages)), Operand(pages - 1));
    k = all_pages(k, table);
    v = all_pages(v, table);
    if (stored != type) {
      k = cast(k, type);
      v = cast(v, type);
    }
    if (stored == DType::i8) {
      k = k * all_pages(c.input("k_scale", type, {pages, kept, rows, 1}), table);
      v = v * all_pages(c.input("v_scale", type, {pages, kept, rows, 1}), table);
    }
  }
  std::optional<Handle> mask;
  if (c.one_in(2)) mask = c.one_in(2) ? c.input("mask", DType::b8, {batch, 1, s, t}) : c.input("mask", DType::f32, {s, t});
  if (mask && mask->dtype() != DType::b8) mask = cast(*mask, type);
  std::optional<Handle> filled;
  if (paged || c.one_in(3)) filled = minimum(maximum(c.input("filled", DType::i64, {batch}), 0), Operand(t));
  c.output("y", attention(q, k, v, mask, 1 / 8.0, causal, filled));
  return c.take();
}

}  // namespace

extern const Definition attention_definition;
const Definition attention_definition{
    "attention",     {{Role::query}, {Role::key}, {Role::value}, {Role::mask, any}, {Role::scale, any}, {Role::block_table, optional}, {Role::filled, optional}, {Role::output}},
    {Op::attention}, nullptr,
    expand,          random_case,
    {"attention_*"}};

}  // namespace ingot::kernels
