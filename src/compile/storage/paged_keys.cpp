#include "compile/storage/paged_keys.h"

#include <algorithm>

#include "compile/attention_sketch.h"

namespace ingot::compile {

using namespace ir;
using kernels::Role;

namespace {

struct Pages {
  Pool rows;
  std::optional<Pool> scale;
  ValueId table;
};

bool is_axis(const AffineMap::Axis& of, size_t axis) { return of == AffineMap::Axis{0, {{static_cast<uint32_t>(axis), 1}}}; }

AffineMap identity(const Dims& dims) {
  AffineMap out{dims, {}, std::nullopt};
  for (uint32_t i = 0; i < dims.size(); ++i) out.axes.push_back({0, {{i, 1}}});
  return out;
}

// True if the view moves axis 1 in front of the last two, and no other.
bool moves_columns(const AffineMap& map) {
  const size_t rank = map.axes.size();
  if (map.fill || rank < 4 || map.dims.size() != rank) return false;
  for (size_t i = 0; i < rank; ++i) {
    const bool is_between = i > 1 && i + 2 < rank;
    if (!is_axis(map.axes[i], i == 1 ? rank - 3 : is_between ? i - 1 : i)) return false;
  }
  return true;
}

// True if a view of [sequences, heads.., T, D] has the same first axis and the same last two.
bool keeps_sequences_and_rows(const AffineMap& map, const Dims& from) {
  const size_t rank = from.size(), to = map.dims.size();
  if (map.fill || rank < 3 || to < 3) return false;
  return is_axis(map.axes[0], 0) && map.dims[0] == from[0] && is_axis(map.axes[rank - 2], to - 2) && map.dims[to - 2] == from[rank - 2] && is_axis(map.axes[rank - 1], to - 1);
}

// True if `v` is [sequences, heads.., C, P, D] of `from` with C and P as one axis.
bool joins_columns(const Dims& from, const Dims& to) {
  if (from.size() != to.size() + 1) return false;
  Dims joined = from;
  const size_t rows = to.size() - 1;
  joined[rows - 1] = joined[rows - 1] * joined[rows];
  joined.erase(joined.begin() + static_cast<ptrdiff_t>(rows));
  return joined == to;
}

// What a cast converts, if `v` is one.
ValueId uncast(const Graph& g, ValueId v) { return g.producer(v).op == Op::cast ? g.producer(v).in[0] : v; }

// A reshape of a gather, seen through a view.
std::optional<Pages> pages_of(const Graph& g, ValueId v, AffineMap view) {
  v = uncast(g, v);
  const Dims& all = g.type(v).dims;
  const Node& join = g.producer(v);
  if (join.op != Op::reshape || !keeps_sequences_and_rows(view, all)) return std::nullopt;
  const ValueId joined = uncast(g, join.in[0]);
  if (!joins_columns(g.type(joined).dims, all)) return std::nullopt;
  const Node& move = g.producer(joined);
  if (move.op != Op::view || !moves_columns(move.attributes.map("map"))) return std::nullopt;
  const Node& read = g.producer(uncast(g, move.in[0]));
  if (read.op != Op::gather || read.attributes.integers("axes") != std::vector<int64_t>{0} || read.attributes.integer("position") != 0 || g.type(read.in[1]).dims.size() != 2)
    return std::nullopt;
  const Dims& pool = g.type(read.in[0]).dims;
  view.dims[0] = pool[0];
  view.dims[view.dims.size() - 2] = pool[pool.size() - 2];
  return Pages{{read.in[0], std::move(view)}, std::nullopt, read.in[1]};
}

// Keys or values: a view of pages, or of the products of pages with a scale for each row.
std::optional<Pages> keys_of(const Graph& g, ValueId v) {
  AffineMap view = identity(g.type(v).dims);
  if (g.producer(v).op == Op::view) {
    view = g.producer(v).attributes.map("map");
    v = g.producer(v).in[0];
  }
  const Node& product = g.producer(v);
  if (product.op != Op::mul) return pages_of(g, v, std::move(view));
  const bool scale_first = g.type(product.in[0]).dims.back() == Dim(1);
  AffineMap of_scale = view;
  of_scale.dims.back() = 1;
  std::optional<Pages> out = pages_of(g, product.in[scale_first ? 1 : 0], std::move(view)), scale = pages_of(g, product.in[scale_first ? 0 : 1], std::move(of_scale));
  if (!out || !scale || out->table != scale->table || !(out->rows.view.dims[0] == scale->rows.view.dims[0]) || !(scale->rows.view.dims.back() == Dim(1))) return std::nullopt;
  out->scale = std::move(scale->rows);
  return out;
}

}  // namespace

std::optional<PagedKeys> paged_keys(const Graph& g, const Node& attention, const Backend& backend) {
  const AttentionInputs of = attention_inputs(attention);
  if (of.filled == none_id || !(g.type(of.key).dims[0] == g.type(attention.out[0]).dims[0])) return std::nullopt;
  std::optional<Pages> k = keys_of(g, of.key), v = keys_of(g, of.value);
  if (!k || !v || k->table != v->table || !(k->rows.view.dims[0] == v->rows.view.dims[0]) || k->scale.has_value() != v->scale.has_value()) return std::nullopt;
  auto type_of = [&](const Pool& p) { return Type{g.type(p.pool).dtype, p.view.dims}; };
  std::vector<std::pair<Role, Type>> operands{{Role::key, type_of(k->rows)}, {Role::value, type_of(v->rows)}, {Role::block_table, g.type(k->table)}};
  for (const std::optional<Pool>& scale : {k->scale, v->scale}) {
    if (scale) operands.emplace_back(Role::scale, type_of(*scale));
  }
  if (!backend.has_offer(attention_sketch(g, attention, std::move(operands)))) return std::nullopt;
  return PagedKeys{std::move(k->rows), std::move(v->rows), std::move(k->scale), std::move(v->scale), k->table};
}

}  // namespace ingot::compile
