// Values that differ from the one before them, and how often each occurs. How many there are comes from data.
#include <numeric>

#include "base/error.h"
#include "ops/binding.h"
#include "ops/nonzero.h"

namespace ingot::ops {

using namespace ir;

namespace {

using Unique = std::tuple<Value, Value, Value>;

// Of a sequence [n, ...] along axis 0: where a run of equal entries begins, as bools [n].
Value begins(const Value& x) {
  Graph& g = x.graph();
  const Value at = iota(g, x.dim(0));
  Value differs = not_equal(x, gather(x, {0}, {maximum(at - 1, 0)}, 0, false));
  if (x.rank() > 1) {
    Axes others(x.rank() - 1);
    std::iota(others.begin(), others.end(), 1);
    differs = reduce("any", differs, others, drop);
  }
  return equal(at, 0) | differs;
}

// torch's three results: an entry [u, ...] of each run, the run of each entry [n], how long each run is [u]. What is not asked for is empty.
Unique runs(const Value& x, bool inverse, bool counts) {
  Graph& g = x.graph();
  const Dim n = x.dim(0);
  const Value begin = begins(x), first = nonzero_elements(begin), run = scan("sum", cast(begin, DType::i64), 0) - 1, none = full(g, {Dim(0)}, 0, DType::i64);
  const Value lengths = counts ? scatter(full(g, {first.dim(0)}, 0, DType::i64), {0}, {run}, 0, false, full(g, {n}, 1, DType::i64), "add") : none;
  return {gather(x, {0}, {first}, 0, false), inverse ? run : none, lengths};
}

// torch sorts in any case.
Unique unique(const Value& x, bool inverse, bool counts) {
  const Dim n = x.numel();
  auto [sorted, order] = sort(reshape(x, {n}), 0, false, false);
  auto [values, run, lengths] = runs(sorted, inverse, counts);
  if (inverse) run = reshape(scatter(full(x.graph(), {n}, 0, DType::i64), {0}, {order}, 0, false, run, "set"), x.dims());
  return {values, run, lengths};
}

// The order of the rows of a matrix in which the first differing column decides: sorted by each column from the last to the first, equal rows stay in order. [n]
Value row_order(const Value& x) {
  const Value columns = literal(x.graph(), x.dim(1), DType::i64);
  auto turn = [](const Value& turn, const std::vector<Value>& carried, const std::vector<Value>& others) -> std::vector<Value> {
    const Value column = gather(others[0], {0, 1}, {carried[0], others[1] - 1 - turn}, 0, false);
    return {gather(carried[0], {0}, {sort(column, 0, false, true).second}, 0, false)};
  };
  return repeat(x.graph(), x.dim(1), {iota(x.graph(), x.dim(0))}, {x, columns}, turn)[0];
}

// Of slices along an axis. They are compared element by element in the order of the other axes.
Unique unique_along(const Value& x, int64_t dim, bool inverse, bool counts) {
  if (x.rank() == 0) fail(Code::unsupported, "unique along an axis of a tensor without axes");
  const Axis axis = x.axis(dim);
  Axes to_front{axis}, back;
  for (Axis a = 0; a < x.rank(); ++a) {
    if (a != axis) to_front.push_back(a);
    back.push_back(a < axis ? a + 1 : a == axis ? 0 : a);
  }
  const Value slices = permute(x, to_front);
  const Dim n = slices.dim(0);
  const Value order = row_order(reshape(slices, {n, product({slices.dims().begin() + 1, slices.dims().end()})}));
  auto [values, run, lengths] = runs(gather(slices, {0}, {order}, 0, false), inverse, counts);
  if (inverse) run = scatter(full(x.graph(), {n}, 0, DType::i64), {0}, {order}, 0, false, run, "set");
  return {permute(values, back), run, lengths};
}

Unique unique_consecutive(const Value& x, bool inverse, bool counts, std::optional<int64_t> dim) {
  if (!dim) {
    auto [values, run, lengths] = runs(reshape(x, {x.numel()}), inverse, counts);
    return {values, inverse ? reshape(run, x.dims()) : run, lengths};
  }
  const int64_t axis = x.axis(*dim);
  auto [values, run, lengths] = runs(transpose(x, 0, axis), inverse, counts);
  return {transpose(values, 0, axis), run, lengths};
}

const Definition unique_rows[] = {
    {"_unique(Tensor self, bool sorted=True, bool return_inverse=False)", Types::each,
     [](Value x, bool, bool inverse) {
       auto [values, run, lengths] = unique(x, inverse, false);
       return std::pair(values, run);
     }},
    {"_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False)", Types::each,
     [](Value x, bool, bool inverse, bool counts) { return unique(x, inverse, counts); }},
    {"unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False)", Types::each,
     [](Value x, int64_t dim, bool, bool inverse, bool counts) { return unique_along(x, dim, inverse, counts); }},
    {"unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)", Types::each,
     [](Value x, bool inverse, bool counts, std::optional<int64_t> dim) { return unique_consecutive(x, inverse, counts, dim); }},
    {"unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False)", Types::each,
     [](Value x, int64_t dim, bool inverse, bool counts) { return unique_consecutive(x, inverse, counts, dim); }},
};

}  // namespace

std::span<const Definition> unique_definitions() { return unique_rows; }

}  // namespace ingot::ops
