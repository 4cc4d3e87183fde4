// Values that differ from the one before them, and how often each occurs. How many there are comes from data.
#include <numeric>

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
    {"unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None)", Types::each,
     [](Value x, bool inverse, bool counts, std::optional<int64_t> dim) { return unique_consecutive(x, inverse, counts, dim); }},
    {"unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False)", Types::each,
     [](Value x, int64_t dim, bool inverse, bool counts) { return unique_consecutive(x, inverse, counts, dim); }},
};

}  // namespace

std::span<const Definition> unique_definitions() { return unique_rows; }

}  // namespace ingot::ops
