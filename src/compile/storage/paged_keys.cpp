#include "compile/storage/paged_keys.h"

#include <algorithm>

#include "compile/attention_sketch.h"

namespace ingot::compile {

using namespace ir;
using kernels::Role;

namespace {

struct Pages {
  ValueId pool, table;
  AffineMap view;
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

// Keys or values that are a view of a reshape of a gather.
std::optional<Pages> pages_of(const Graph& g, ValueId v) {
  AffineMap view = identity(g.type(v).dims);
  if (g.producer(v).op == Op::view) {
    view = g.producer(v).attributes.map("map");
    v = g.producer(v).in[0];
  }
  const Dims& all = g.type(v).dims;
  const Node& join = g.producer(v);
  if (join.op != Op::reshape || !keeps_sequences_and_rows(view, all) || !joins_columns(g.type(join.in[0]).dims, all)) return std::nullopt;
  const Node& move = g.producer(join.in[0]);
  if (move.op != Op::view || !moves_columns(move.attributes.map("map"))) return std::nullopt;
  const Node& read = g.producer(move.in[0]);
  if (read.op != Op::gather || read.attributes.integers("axes") != std::vector<int64_t>{0} || read.attributes.integer("position") != 0 || g.type(read.in[1]).dims.size() != 2)
    return std::nullopt;
  const Dims& pool = g.type(read.in[0]).dims;
  view.dims[0] = pool[0];
  view.dims[view.dims.size() - 2] = pool[pool.size() - 2];
  return Pages{read.in[0], read.in[1], std::move(view)};
}

}  // namespace

std::optional<PagedKeys> paged_keys(const Graph& g, const Node& attention, const Backend& backend) {
  const AttentionInputs of = attention_inputs(attention);
  if (of.filled == none_id || !(g.type(of.key).dims[0] == g.type(attention.out[0]).dims[0])) return std::nullopt;
  std::optional<Pages> k = pages_of(g, of.key), v = pages_of(g, of.value);
  if (!k || !v || k->table != v->table || !(k->view.dims[0] == v->view.dims[0])) return std::nullopt;
  const backend::Site site = attention_sketch(g, attention, {{Role::key, {g.type(of.key).dtype, k->view.dims}}, {Role::block_table, g.type(k->table)}});
  if (!backend.has_offer(site)) return std::nullopt;
  return PagedKeys{k->pool, v->pool, k->table, std::move(k->view), std::move(v->view)};
}

}  // namespace ingot::compile
