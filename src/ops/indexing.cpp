// Reading and writing at computed positions.
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/lowest.h"
#include "ops/segments.h"

namespace ingot::ops {

using namespace ir;

Value nonzero_elements(const Value& x) {
  const Dim n = x.numel();
  Graph& g = x.graph();
  Value flag = reshape(to_bool(x), {n}), so_far = scan("sum", cast(flag, DType::i64), 0);
  const Dim count = read_size(sum(cast(flag, DType::i64), {}), n);
  // Each goes to its place among those found; all others to one place after, which nobody reads.
  Value place = select(flag, so_far - 1, n);
  Value found = scatter(full(g, {n + 1}, 0, DType::i64), {0}, {place}, 0, false, iota(g, n), "set");
  return view(found, slice_map(found.dims(), 0, 0, count, 1));
}

namespace {

// torch reads positions of these types only; others it refuses, or takes for a mask (uint8).
Value position(const Value& index) {
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32) fail(Code::unsupported, "an index of dtype {}; int32 or int64 is needed", name_of(index.dtype()));
  return index;
}

Value long_position(const Value& index) {
  if (index.dtype() != DType::i64) fail(Code::unsupported, "an index of dtype {}; int64 is needed", name_of(index.dtype()));
  return index;
}

Value same_type(const Value& x, const Value& source) {
  if (x.dtype() != source.dtype()) fail(Code::unsupported, "the tensor is {} and what is written is {}, and torch takes equal dtypes", name_of(x.dtype()), name_of(source.dtype()));
  return source;
}

// The index along each axis of row-major element numbers in a tensor of these sizes.
std::vector<Value> unravel(const Value& element, const Dims& dims) {
  std::vector<Value> out(dims.size());
  Value rest = element;
  for (size_t d = dims.size(); d-- > 0;) {
    out[d] = d > 0 ? map(Op::mod, {rest, dims[d]}) : rest;
    if (d > 0) rest = map(Op::floordiv, {rest, dims[d]});
  }
  return out;
}

// The indices of the elements that are not zero, a tensor for each axis.
std::vector<Value> nonzero_along_axes(const Value& x) {
  if (x.rank() == 0) fail(Code::unsupported, "nonzero of a tensor without axes");
  const Dims dims = x.dims();
  return unravel(nonzero_elements(x), dims);
}

// The same for the first `count` of them, a row for each and `fill` after the last one: [count, rank].
Value nonzero_rows(const Value& x, const Dim& count, int64_t fill) {
  Graph& g = x.graph();
  Dims dims = x.dims();
  for (Dim& size : dims) size = max(size, 1);  // numbers are divided by it, of elements or not
  const Dim n = x.numel();
  const Value flag = reshape(to_bool(x), {n}), so_far = scan("sum", cast(flag, DType::i64), 0);
  const Value place = select(flag, minimum(so_far - 1, Operand(count)), count);
  const Value found = slice(scatter(full(g, {count + Dim(1)}, -1, DType::i64), {0}, {place}, 0, false, iota(g, n), "set"), 0, Dim(0), count, 1);
  std::vector<Value> columns;
  for (const Value& c : unravel(found, dims)) columns.push_back(unsqueeze(select(found < 0, fill, c), 1));
  return columns.empty() ? full(g, {count, Dim(0)}, 0, DType::i64) : concat(std::move(columns), 1);
}

// How often each number from 0 on occurs, or the sum of its weights. There are as many results as the largest number says, and at least `least`.
Value bincount(const Value& x, const std::optional<Value>& weights, const Dim& least) {
  if (x.rank() != 1 || !is_integer(x.dtype())) fail(Code::unsupported, "bincount of {} of rank {}", name_of(x.dtype()), x.rank());
  Graph& g = x.graph();
  const DType t = !weights ? DType::i64 : weights->dtype() == DType::f32 ? DType::f32 : DType::f64;
  if (weights) require(g, weights->numel(), Check::equal, x.numel(), "each number has a weight");
  const Value each = weights ? cast(*weights, t) : full(g, x.dims(), 1, t), number = cast(x, DType::i64);
  const Dim size = x.numel() == Dim(0) ? least : read_size(maximum(amax(pad(number, {Dim(0)}, {Dim(1)}, -1), {}) + 1, Operand(least)), std::nullopt);
  return scatter(full(g, {size}, 0, t), {0}, {number}, 0, false, each, "add");
}

// torch's advanced indexing: which axes are indexed, and where the index dims go.
struct Positions {
  Value x;  // the axes of each boolean index are one
  std::vector<int64_t> axes;
  std::vector<Value> indices;
  int64_t position = 0;
};

Positions positions_of(const Value& x, const std::vector<std::optional<Value>>& indices) {
  Positions p;
  bool adjacent = true;
  Dims dims;
  size_t next = 0;  // axis of x
  auto axis = [&]() -> const Dim& {
    if (next >= x.dims().size()) fail(Code::invalid_input, "index: too many indices for rank {}", x.rank());
    return x.dims()[next++];
  };
  for (const std::optional<Value>& index : indices) {
    const auto here = static_cast<int64_t>(dims.size());
    const bool mask = index && index->dtype() == DType::b8;
    dims.push_back(mask ? Dim(1) : axis());
    if (!index) continue;
    if (mask) {
      if (index->rank() == 0) fail(Code::unsupported, "a boolean index without axes");
      for (const Dim& d : index->dims()) {
        const Dim& covered = axis();
        require(x.graph(), covered, Check::equal, d, "a boolean index has the sizes of the axes that it covers");
        dims.back() *= covered;
      }
    }
    if (!p.axes.empty() && p.axes.back() + 1 != here) adjacent = false;
    p.axes.push_back(here);
    p.indices.push_back(mask ? nonzero_elements(*index) : position(*index));
  }
  if (p.axes.empty()) fail(Code::unsupported, "index without indices");
  dims.insert(dims.end(), x.dims().begin() + static_cast<ptrdiff_t>(next), x.dims().end());
  p.x = reshape(x, dims);
  p.position = adjacent ? p.axes[0] : 0;
  return p;
}

// Where the mask holds, the next row of `rows`; elsewhere x. The mask covers x's leading axes. `all`: every row must be taken. Rows that are missing or left are an
// index out of range.
Value put_where(const Value& x, Value mask, const Value& rows, bool accumulate, bool all) {
  Dims none(rows.dims().size(), Dim(0)), one = none;
  one[0] = 1;
  // One row is appended, so that there is one to read where none is taken.
  const Dim behind = rows.dim(0), outside = behind + 1;
  const Value flags = reshape(mask, {mask.numel()}), count = cast(flags, DType::i64), next = scan("sum", count, 0) - 1;
  const Value fits = all ? equal(sum(count, {}), behind) : next < behind;
  const Value at = select(flags, select(fits, next, outside), all ? select(fits, behind, outside) : Operand(behind));
  Value taken = reshape(gather(pad(rows, none, one, 0), {0}, {at}, 0, false), x.dims());
  while (mask.rank() < x.rank()) mask = unsqueeze(mask, -1);
  return select(mask, accumulate ? x + taken : taken, x);
}

Value put(const Value& x, const std::vector<std::optional<Value>>& indices, const Value& given, bool accumulate) {
  const Value values = same_type(x, given);
  // x[mask] = one value: a select, whose size does not depend on the mask.
  const bool by_mask = indices.size() == 1 && indices[0] && indices[0]->dtype() == DType::b8 && indices[0]->rank() <= x.rank();
  if (by_mask && values.numel() == Dim(1)) {
    Value mask = *indices[0];
    while (mask.rank() < x.rank()) mask = unsqueeze(mask, -1);
    Value one = reshape(values, {});
    return select(mask, accumulate ? x + one : one, x);
  }
  const bool in_rows = by_mask && indices[0]->rank() >= 1 && values.rank() == 1 + x.rank() - indices[0]->rank() && !(values.dim(0) == Dim(1));
  if (in_rows && Dims(values.dims().begin() + 1, values.dims().end()) == Dims(x.dims().begin() + indices[0]->rank(), x.dims().end())) {
    return put_where(x, *indices[0], values, accumulate, true);
  }
  Positions p = positions_of(x, indices);
  Value shape = gather(p.x, p.axes, p.indices, p.position, true);
  return reshape(scatter(p.x, p.axes, p.indices, p.position, true, expand(values, shape.dims()), accumulate ? "add" : "set"), x.dims());
}

// Elements of the sorted `boundaries` that come before each of x; NaN comes last.
Value places_among(const Value& boundaries, const Value& x, bool right, bool narrow) {
  if (is_bool(x.dtype())) fail(Code::unsupported, "searchsorted among bools");
  const Dim length = boundaries.dim(-1);
  auto before = [&](const Value& b, const Value& v) { return logical_not(right ? b > v : b >= v); };
  const bool lines = boundaries.rank() > 1;  // a sequence for each line of x
  for (Axis a = 0; lines && a + 1 < x.rank(); ++a) require(x.graph(), x.dim(a), Check::equal, boundaries.dim(a), "each line has a sequence");
  constexpr int64_t max_unrolled = 8;
  if (!length.is_constant() || length.value() <= max_unrolled) {  // they are counted
    Dims line(static_cast<size_t>(x.rank()), Dim(1));
    line.push_back(length);
    if (lines) {
      line = boundaries.dims();
      line.insert(line.end() - 1, Dim(1));
    }
    return cast(sum(before(reshape(boundaries, line), unsqueeze(x, -1)), {-1}), narrow ? DType::i32 : DType::i64);
  }
  // A binary search: all of x take the same steps, each of which leaves half of the places.
  std::vector<int64_t> axes;
  std::vector<Value> index;
  for (Axis a = 0; lines && a + 1 < x.rank(); ++a) {
    Dims line(static_cast<size_t>(x.rank()), Dim(1));
    line[static_cast<size_t>(a)] = x.dim(a);
    axes.push_back(a);
    index.push_back(ir::index(x.graph(), line, a));
  }
  axes.push_back(boundaries.rank() - 1);
  index.push_back(x);
  Value place = full(x.graph(), x.dims(), 0, DType::i64);
  for (int64_t left = length.value(); left > 0;) {
    const int64_t half = left > 1 ? left / 2 : 1;
    index.back() = half > 1 ? place + (half - 1) : place;
    place = place + select(before(gather(boundaries, axes, index, 0, false), x), half, 0);
    left -= half;
  }
  return cast(place, narrow ? DType::i32 : DType::i64);
}

const char* reduction(const std::string& reduce) {
  if (reduce == "sum" || reduce == "add") return "add";
  if (reduce == "prod" || reduce == "multiply") return "mul";
  if (reduce == "amax") return "max";
  if (reduce == "amin") return "min";
  fail(Code::unsupported, "scatter: reduce \"{}\"", reduce);
}

// index_add and its like: slices of `source` go to the positions along one axis. `wrap`: negative ones count from the end.
Value slices(const Value& x, int64_t dim, const Value& index, bool wrap, const Value& source, const char* kind) {
  if (x.rank() == 0) return reshape(slices(reshape(x, {Dim(1)}), 0, index, wrap, source, kind), {});
  Value positions = index.rank() == 0 ? reshape(position(index), {Dim(1)}) : position(index);
  Value values = source.rank() < x.rank() ? reshape(same_type(x, source), {Dim(1)}) : same_type(x, source);
  return scatter(x, {x.axis(dim)}, {positions}, x.axis(dim), wrap, values, kind);
}

// True if the index is the same along all axes but one, as `index[:, None].expand(-1, n)` is.
bool varies_along_one(const Value& index, Axis axis) {
  const Graph& g = index.graph();
  auto map_of = [&](ValueId v) -> const AffineMap* {
    const Node& node = g.producer(v);
    const bool plain = node.op == Op::view && !node.attributes.map("map").fill;
    return plain ? &node.attributes.map("map") : nullptr;
  };
  ValueId v = index.id();
  while (g.producer(v).op == Op::cast) v = g.producer(v).in[0];
  const AffineMap* map = map_of(v);
  if (map == nullptr) return false;
  AffineMap all = *map;
  while ((map = map_of(v = g.producer(v).in[0])) != nullptr) all = compose(all, *map);
  return std::all_of(all.axes.begin(), all.axes.end(), [&](const AffineMap::Axis& a) {
    return std::all_of(a.terms.begin(), a.terms.end(), [&](const AffineMap::Term& t) { return t.axis == axis || all.dims[t.axis] == Dim(1); });
  });
}

Value along(const Value& x, int64_t dim, Value index, const Value& source, const char* kind) {
  if (x.rank() == 0) {
    Value first = source.rank() == 0 ? unsqueeze(source, 0) : slice(source, 0, Dim(0), Dim(1), 1);  // there may be more of them than indices
    Value y = scatter_along(reshape(x, {Dim(1)}), 0, reshape(position(index), {Dim(1)}), same_type(x, first), kind);
    return reshape(y, {});
  }
  const Axis axis = x.axis(dim);
  if (x.rank() > 1 && index.rank() == x.rank() && index.dims() == source.dims() && varies_along_one(index, axis)) {
    Dims rest = x.dims();
    rest[static_cast<size_t>(axis)] = index.dim(axis);
    if (rest == index.dims()) {  // whole slices
      for (Axis d = x.rank() - 1; d >= 0; --d) index = d == axis ? index : take(index, d, 0);
      return slices(x, axis, index, false, source, kind);
    }
  }
  return scatter_along(x, dim, position(index), same_type(x, source), kind);
}

// What an element has before anything is reduced into it.
Scalar neutral(const char* kind, DType t) {
  const std::string_view k = kind;
  if (k == "add") return 0;
  if (k == "mul") return 1;
  if (k == "max") return lowest(t);
  if (is_float(t)) return INFINITY;
  if (is_bool(t)) return true;
  return t == DType::u8 ? 255 : -(lowest(t).to_int() + 1);
}

// scatter_reduce and index_reduce; `put(base, source, kind)` scatters. Without the tensor's own elements, those that something is reduced into begin anew.
template <class Put>
Value reduced_into(const Value& given, const Value& given_source, const std::string& reduce, bool include_self, const Put& put) {
  same_type(given, given_source);
  const bool mean = reduce == "mean";
  const char* kind = mean ? "add" : reduction(reduce);
  const Value x = widened(given), source = widened(given_source);
  Value base = x;
  if (!include_self) {
    const Value touched = put(full(x.graph(), x.dims(), false, DType::b8), full(x.graph(), source.dims(), true, DType::b8), "set");
    base = select(touched, full(x.graph(), {}, neutral(kind, x.dtype()), x.dtype()), x);
  }
  Value y = put(base, source, kind);
  if (mean) {
    const Value counts = put(full(x.graph(), x.dims(), include_self ? 1 : 0, DType::i64), full(x.graph(), source.dims(), 1, DType::i64), "add");
    const Value n = cast(maximum(counts, 1), x.dtype());
    y = is_float(x.dtype()) ? y / n : map(Op::floordiv, {y, n});
  }
  return cast(y, given.dtype());
}

// The step of numbers 0, step, 2 * step and so on, if `x` is known to be them.
std::optional<Dim> step_of(const Value& x) {
  const Graph& g = x.graph();
  auto behind = [&](ValueId v, Op op) {
    while (g.producer(v).op == op) v = g.producer(v).in[0];
    return v;
  };
  const Node& made = g.producer(behind(x.id(), Op::cast));
  if (made.op == Op::index) return Dim(1);
  if (made.op != Op::mul || g.producer(made.in[0]).op != Op::index) return std::nullopt;
  const Node& factor = g.producer(behind(made.in[1], Op::view));
  if (factor.op == Op::size) return factor.attributes.dim("dim");
  return factor.op == Op::literal ? std::optional(Dim(factor.attributes.scalar("value").to_int())) : std::nullopt;
}

// Elements of x along an axis, reduced in segments that follow one another: lengths or offsets [.., S] for each line of the axes in front. Elements in front of the first offset and
// after the last segment are left out; without `unsafe` lengths that do not add up to the axis are an error.
Value reduced_segments(const Value& given, const std::string& how, const std::optional<Value>& lengths, const std::optional<Value>& offsets, int64_t given_axis, bool unsafe,
                       const std::optional<Scalar>& initial) {
  if (!is_float(given.dtype())) fail(Code::unsupported, "segment_reduce of {}", name_of(given.dtype()));
  if (!lengths && !offsets) fail(Code::unsupported, "segment_reduce without lengths and offsets");
  Graph& g = given.graph();
  const Axis axis = given.axis(given_axis);
  const Value x = widened(given), by = cast(lengths ? *lengths : *offsets, DType::i64);
  if (by.rank() != axis + 1) fail(Code::unsupported, "segment_reduce along axis {} by a tensor of rank {}", axis, by.rank());
  const bool is_mean = how == "mean";
  const char* kind = is_mean || how == "sum" ? "add" : how == "prod" ? "mul" : how == "max" ? "max" : how == "min" ? "min" : nullptr;
  if (kind == nullptr) fail(Code::invalid_input, "segment_reduce: \"{}\"", how);
  const double start = initial ? initial->to_double() : how == "max" ? -INFINITY : how == "min" ? INFINITY : how == "prod" ? 1.0 : 0.0;
  const Dim size = x.dim(axis), last = by.dim(-1) - Dim(1);
  Value sizes = by, all = by;  // what is left out is in segments too
  if (offsets) {
    sizes = slice(by, -1, Dim(1), std::nullopt, 1) - slice(by, -1, Dim(0), last, 1);
    all = concat({slice(by, -1, Dim(0), Dim(1), 1), sizes, literal(g, size, DType::i64) - slice(by, -1, last, std::nullopt, 1)}, -1);
  } else if (unsafe) {
    all = concat({by, literal(g, size, DType::i64) - sum(by, {-1}, keep)}, -1);
  }
  Dims lines(x.dims().begin(), x.dims().begin() + axis), rest(x.dims().begin() + axis + 1, x.dims().end());
  auto joined = [&](const Dims& front, const Dim& middle) {
    Dims dims = front;
    dims.push_back(middle);
    dims.insert(dims.end(), rest.begin(), rest.end());
    return dims;
  };
  const Dim rows = product(lines) * size, count = all.dim(-1);
  const Value segment = segment_of_each(scan("sum", reshape(all, {all.numel()}), 0), rows);
  Value y = scatter(full(g, joined({}, all.numel()), start, x.dtype()), {0}, {segment}, 0, false, reshape(x, joined({}, rows)), kind);
  y = slice(reshape(y, joined(lines, count)), axis, Dim(offsets ? 1 : 0), Dim(offsets ? 1 : 0) + sizes.dim(-1), 1);
  if (is_mean) {
    Value n = sizes;
    for (size_t i = 0; i < rest.size(); ++i) n = unsqueeze(n, -1);
    y = select(equal(n, 0), initial ? start : NAN, y / cast(n, x.dtype()));
  }
  return cast(y, given.dtype());
}

// Rows of a table, summed (or their mean or largest) in bags: bag i begins at offsets[i]. `mode`: 0 sum, 1 mean, 2 max. Of the results the first;
// the others are for training, and no tensors of their types: a model that reads them keeps the call in torch.
std::vector<Value> embedding_bag(const Value& table, const Value& given, const Value& given_offsets, int64_t mode, const std::optional<Value>& factors, bool last_is_end,
                                 std::optional<int64_t> padding) {
  Graph& g = table.graph();
  if (given.rank() != 1) fail(Code::unsupported, "embedding_bag with indices of rank {}", given.rank());
  const Value all = cast(position(given_offsets), DType::i64);
  const bool drops = last_is_end && mode != 2;  // what is after the last offset is one more bag, which is dropped; torch's mode max takes it into the last bag
  const Value offsets = last_is_end && !drops ? slice(all, 0, Dim(0), all.dim(0) - Dim(1), 1) : all;
  const Dim n = given.dim(0), bags = offsets.dim(0);
  // Bags of one length are rows of a matrix of indices.
  std::optional<Dim> length = step_of(offsets);
  if (length && !(bags * *length == n)) length.reset();
  auto in_bags = [&](const Value& x) { return length ? reshape(x, {bags, *length}) : x; };
  const Value index = in_bags(cast(position(given), DType::i64));
  Value rows = widened(gather(table, {0}, {index}, 0, false));
  if (factors) rows = rows * unsqueeze(widened(in_bags(*factors)), -1);
  const double start = mode == 2 ? -INFINITY : 0.0;
  std::optional<Value> counted;
  if (padding) {
    counted = not_equal(index, *padding < 0 ? Operand(table.dim(0) + Dim(*padding)) : Operand(*padding));
    rows = select(unsqueeze(*counted, -1), rows, start);
  }
  const Value ones = counted ? cast(*counted, DType::i64) : full(g, index.dims(), 1, DType::i64);
  Value y = rows, sizes = ones;
  if (length) {
    y = mode == 2 ? amax(rows, {1}) : sum(rows, {1});
    sizes = sum(ones, {1});
  } else {
    // How many bags have begun.
    const Value begun = scatter(full(g, {n + Dim(1)}, 0, DType::i64), {0}, {offsets}, 0, false, full(g, {bags}, 1, DType::i64), "add");
    const Value bag = scan("sum", slice(begun, 0, Dim(0), n, 1), 0) - 1;
    sizes = scatter(full(g, {bags}, 0, DType::i64), {0}, {bag}, 0, false, ones, "add");
    y = scatter(full(g, {bags, table.dim(1)}, start, rows.dtype()), {0}, {bag}, 0, false, rows, mode == 2 ? "max" : "add");
  }
  if (mode == 1) y = y / cast(maximum(unsqueeze(sizes, 1), 1), y.dtype());
  if (mode == 2) y = select(unsqueeze(sizes, 1) > 0, y, 0.0);
  if (drops) y = slice(y, 0, Dim(0), bags - Dim(1), 1);
  const Value unread = full(g, {}, false, DType::b8);
  return {cast(y, table.dtype()), unread, unread, unread};
}

const Definition indexing_rows[] = {
    {"embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool "
     "include_last_offset=False)",
     Types::each, [](Value w, Value i, Value o, bool, int64_t mode, bool, std::optional<Value> f, bool last) { return embedding_bag(w, i, o, mode, f, last, std::nullopt); }},
    {"embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool "
     "include_last_offset, int? padding_idx)",
     Types::each,
     [](Value w, Value i, Value o, bool, int64_t mode, bool, std::optional<Value> f, bool last, std::optional<int64_t> p) { return embedding_bag(w, i, o, mode, f, last, p); }},
    {"{_embedding_bag,_embedding_bag_forward_only}(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor? "
     "per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1)",
     Types::each,
     [](Value w, Value i, Value o, bool, int64_t mode, bool, std::optional<Value> f, bool last, int64_t p) {
       return embedding_bag(w, i, o, mode, f, last, p < 0 ? std::nullopt : std::optional(p));
     }},
    {"embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)", Types::each,
     [](Value table, Value index, int64_t, bool, bool) { return gather(table, {0}, {position(index)}, 0, false); }},
    {"index.Tensor(Tensor self, Tensor?[] indices)", Types::each,
     [](Value x, std::vector<std::optional<Value>> indices) {
       Positions p = positions_of(x, indices);
       return gather(p.x, p.axes, p.indices, p.position, true);
     }},
    {"_unsafe_index.Tensor(Tensor self, Tensor?[] indices)", Types::each,
     [](Value x, std::vector<std::optional<Value>> indices) {
       Positions p = positions_of(x, indices);
       return gather(p.x, p.axes, p.indices, p.position, true);
     }},
    {"{nonzero,argwhere}(Tensor self)", Types::each,
     [](Value x) {
       std::vector<Value> columns;
       for (const Value& c : nonzero_along_axes(x)) columns.push_back(unsqueeze(c, 1));
       return columns.size() == 1 ? columns[0] : concat(std::move(columns), 1);
     }},
    {"nonzero_static(Tensor self, *, SymInt size, int fill_value=-1)", [](Value x, Dim size, int64_t fill) { return nonzero_rows(x, size, fill); }},
    {"bincount(Tensor self, Tensor? weights=None, SymInt minlength=0)", Types::each, [](Value x, std::optional<Value> weights, Dim least) { return bincount(x, weights, least); }},
    {"segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None)",
     Types::each,
     [](Value x, std::string how, std::optional<Value> lengths, std::optional<Value> indices, std::optional<Value> offsets, int64_t axis, bool unsafe,
        std::optional<Scalar> initial) {
       if (indices) fail(Code::unsupported, "segment_reduce by indices");
       return reduced_segments(x, how, lengths, offsets, axis, unsafe, initial);
     }},
    {"put(Tensor self, Tensor index, Tensor source, bool accumulate=False)", Types::each,
     [](Value x, Value index, Value source, bool accumulate) {
       const Dim n = index.numel();
       const Value y = scatter(reshape(x, {x.numel()}), {0}, {reshape(long_position(index), {n})}, 0, true, reshape(same_type(x, source), {n}), accumulate ? "add" : "set");
       return reshape(y, x.dims());
     }},
    {"masked_select(Tensor self, Tensor mask)", Types::each,
     [](Value x, Value mask) {
       const Dims dims = require_broadcast(x.graph(), {x.dims(), mask.dims()});
       const Dim n = product(dims);
       return gather(reshape(expand(x, dims), {n}), {0}, {nonzero_elements(expand(mask, dims))}, 0, false);
     }},
    {"index_select(Tensor self, int dim, Tensor index)", Types::each,
     [](Value x, int64_t dim, Value index) {
       if (x.rank() == 0) return reshape(gather(reshape(x, {Dim(1)}), {0}, {reshape(position(index), {Dim(1)})}, 0, false), {});
       return gather(x, {x.axis(dim)}, {index.rank() == 0 ? unsqueeze(position(index), 0) : position(index)}, x.axis(dim), false);
     }},
    {"gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False)", Types::each,
     [](Value x, int64_t dim, Value index, bool) {
       position(index);
       if (x.rank() == 0) x = unsqueeze(x, 0);
       if (index.rank() == 0) return reshape(take_along(x, dim, unsqueeze(index, 0)), {});
       if (index.numel() == Dim(0)) return full(x.graph(), index.dims(), 0, x.dtype());  // of any rank
       return take_along(x, dim, index);
     }},
    {"take_along_dim(Tensor self, Tensor indices, int? dim=None)", Types::each,
     [](Value x, Value index, std::optional<int64_t> dim) {
       position(index);
       if (!dim) return take_along(reshape(x, {Dim(-1)}), 0, reshape(index, {Dim(-1)}));
       Axis a = x.axis(*dim);
       // Both broadcast against one another besides the axis.
       Dims mine = x.dims(), theirs = index.dims();
       Dims common = broadcast(
           [&] {
             Dims d = mine;
             d[static_cast<size_t>(a)] = 1;
             return d;
           }(),
           [&] {
             Dims d = theirs;
             d[static_cast<size_t>(a)] = 1;
             return d;
           }(),
           x.graph().symbols);
       Dims x_dims = common, i_dims = common;
       x_dims[static_cast<size_t>(a)] = mine[static_cast<size_t>(a)];
       i_dims[static_cast<size_t>(a)] = theirs[static_cast<size_t>(a)];
       index = map(Op::mod, {index, x.dim(a)});  // along a named axis every position counts, around the axis and around again
       return take_along(expand(x, x_dims), a, expand(index, i_dims));
     }},
    {"index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False)", Types::each,
     [](Value x, std::vector<std::optional<Value>> indices, Value values, bool accumulate) { return put(x, indices, values, accumulate); }},
    {"scatter.src(Tensor self, int dim, Tensor index, Tensor src)", Types::each, [](Value x, int64_t d, Value i, Value s) { return along(x, d, i, s, "set"); }},
    {"scatter.value(Tensor self, int dim, Tensor index, Scalar value)", Types::each,
     [](Value x, int64_t d, Value i, Scalar v) { return along(x, d, i, full(x.graph(), i.dims(), v, x.dtype()), "set"); }},
    {"scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce)", Types::each,
     [](Value x, int64_t d, Value i, Scalar v, std::string r) { return along(x, d, i, full(x.graph(), i.dims(), v, x.dtype()), reduction(r)); }},
    {"scatter_add(Tensor self, int dim, Tensor index, Tensor src)", Types::each, [](Value x, int64_t d, Value i, Value s) { return along(x, d, i, s, "add"); }},
    {"scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce)", Types::each,
     [](Value x, int64_t d, Value i, Value s, std::string r) { return along(x, d, i, s, reduction(r)); }},
    {"index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1)", Types::each,
     [](Value x, int64_t dim, Value index, Value source, Scalar alpha) {
       if (!alpha.is_integer() || alpha.to_int() != 1) source = source * literal(x.graph(), alpha, source.dtype());
       return slices(x, dim, index, false, source, "add");
     }},
    {"scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)", Types::each,
     [](Value x, int64_t dim, Value index, Value source, std::string reduce, bool own) {
       return reduced_into(x, source, reduce, own, [&](const Value& base, const Value& from, const char* kind) { return along(base, dim, index, from, kind); });
     }},
    {"index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)", Types::each,
     [](Value x, int64_t dim, Value index, Value source, std::string reduce, bool own) {
       return reduced_into(x, source, reduce, own, [&](const Value& base, const Value& from, const char* kind) { return slices(base, dim, index, false, from, kind); });
     }},
    {"take(Tensor self, Tensor index)", Types::each, [](Value x, Value index) { return gather(reshape(x, {Dim(-1)}), {0}, {long_position(index)}, 0, true); }},
    {"index_copy(Tensor self, int dim, Tensor index, Tensor source)", Types::each,
     [](Value x, int64_t dim, Value index, Value source) { return slices(x, dim, long_position(index), false, source, "set"); }},
    {"index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value)", Types::each,
     [](Value x, int64_t dim, Value index, Scalar value) {
       Dims dims = x.rank() == 0 ? Dims{Dim(1)} : x.dims();
       dims[x.rank() == 0 ? 0 : static_cast<size_t>(x.axis(dim))] = index.numel();
       return slices(x, dim, long_position(index), true, full(x.graph(), dims, value, x.dtype()), "set");
     }},
    {"index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value)", Types::each,
     [](Value x, int64_t dim, Value index, Value value) {
       Dims dims = x.rank() == 0 ? Dims{Dim(1)} : x.dims();
       dims[x.rank() == 0 ? 0 : static_cast<size_t>(x.axis(dim))] = index.numel();
       return slices(x, dim, long_position(index), true, expand(cast(value, x.dtype()), dims), "set");
     }},
    {"masked_scatter(Tensor self, Tensor mask, Tensor source)", Types::each,
     [](Value x, Value mask, Value source) {
       if (!is_bool(mask.dtype())) fail(Code::unsupported, "masked_scatter: the mask is {}, not bool", name_of(mask.dtype()));
       same_type(x, source);
       const Dims common = require_broadcast(x.graph(), {x.dims(), mask.dims()});
       if (common.empty()) return select(mask, reshape(take(reshape(source, {Dim(-1)}), 0, Dim(0)), {}), x);
       return put_where(expand(x, common), expand(mask, common), reshape(source, {source.numel()}), false, false);
     }},
    // A row of the unit matrix each: a class out of range is an error, as in eager.
    {"one_hot(Tensor self, int num_classes=-1)",
     [](Value x, int64_t n) {
       if (n < 1) fail(Code::unsupported, "one_hot without num_classes: the number of classes comes from the values");
       return gather(cast(equal(ir::index(x.graph(), {Dim(n), Dim(n)}, 0), ir::index(x.graph(), {Dim(n), Dim(n)}, 1)), DType::i64), {0}, {x}, 0, false);
     }},
    {"searchsorted.{Tensor,Scalar}(Tensor sorted_sequence, {Tensor,Scalar} self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None)", Types::each,
     [](Value sequence, Operand x, bool narrow, bool right, std::optional<std::string> side, std::optional<Value> sorter) {
       if (sorter && sequence.rank() == 0) fail(Code::unsupported, "searchsorted: an order of a sequence without axes");
       const DType common = ir::result_type(std::array{Operand(sequence), x});
       if (sorter) sequence = take_along(sequence, -1, long_position(*sorter));
       const Value sought = x.value ? cast(*x.value, common) : literal(sequence.graph(), x.number, common);
       return places_among(cast(sequence, common), sought, right || side.value_or("left") == "right", narrow);
     }},
    {"bucketize.{Tensor,Scalar}({Tensor,Scalar} self, Tensor boundaries, *, bool out_int32=False, bool right=False)", Types::common,
     [](Value x, Value boundaries, bool narrow, bool right) { return places_among(boundaries, x, right, narrow); }},
    {"sort(Tensor self, int dim=-1, bool descending=False)", [](Value x, int64_t d, bool down) { return sort(x, d, down, false); }},
    {"sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)",
     [](Value x, std::optional<bool> s, int64_t d, bool down) { return sort(x, d, down, s.value_or(false)); }},
    {"argsort(Tensor self, int dim=-1, bool descending=False)", [](Value x, int64_t d, bool down) { return sort(x, d, down, false).second; }},
    {"argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False)", [](Value x, bool s, int64_t d, bool down) { return sort(x, d, down, s).second; }},
    {"topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)", Types::numbers,
     [](Value x, Dim k, int64_t d, bool largest, bool sorted) { return topk(x, k, d, largest, sorted); }},
};

}  // namespace

Value segment_of_each(const Value& ends, const Dim& n) {
  Graph& g = ends.graph();
  const Value ended = scatter(full(g, {n + Dim(1)}, 0, DType::i64), {0}, {ends}, 0, false, full(g, ends.dims(), 1, DType::i64), "add");
  return scan("sum", slice(ended, 0, Dim(0), n, 1), 0);
}

std::span<const Definition> indexing_definitions() { return indexing_rows; }

}  // namespace ingot::ops
