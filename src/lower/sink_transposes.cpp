// A linear layer between a transpose of its input's rows and the inverse one (torch's MultiheadAttention, whose batch axis follows the sequence) works on the rows
// in memory order: the transpose moves after it and after the pointwise operations that follow, where it meets its inverse.
#include <algorithm>
#include <numeric>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

using ir::AffineMap;
using ir::Axes;

// The operand's axis for each axis of a view that only permutes axes.
std::optional<Axes> turn_of(const Graph& g, ValueId v) {
  const Node& n = maker(g, v);
  if (n.op != Op::view) return std::nullopt;
  const AffineMap& map = n.attributes.map("map");
  const Dims& from = g.type(n.in[0]).dims;
  if (map.fill || map.dims.size() != from.size()) return std::nullopt;
  Axes out(from.size(), -1);
  for (size_t a = 0; a < from.size(); ++a) {
    const AffineMap::Axis& axis = map.axes[a];
    if (!(axis.offset == Dim(0)) || axis.terms.size() != 1 || axis.terms[0].coefficient != 1) return std::nullopt;
    ir::Axis& of = out[axis.terms[0].axis];
    if (of != -1 || !(map.dims[axis.terms[0].axis] == from[a])) return std::nullopt;
    of = static_cast<ir::Axis>(a);
  }
  return out;
}

// A matrix [.., K] whose row axes are in another order than in memory.
struct Transposed {
  ValueId source;   // what was transposed,
  Axes in_order;    // its axes, with the row axes in memory order
  Axes rows;        // axis i of the matrix is this one of those
};

// `v` may merge its last axes after the permutation (heads).
std::optional<Transposed> transposed(const Graph& g, ValueId v) {
  const Dims& dims = g.type(v).dims;
  ValueId inner = v;
  if (is(g, v, Op::reshape)) {
    inner = maker(g, v).in[0];
    const Dims& from = g.type(inner).dims;
    if (from.size() < dims.size() || !std::equal(dims.begin(), dims.end() - 1, from.begin())) return std::nullopt;
  }
  auto turn = turn_of(g, inner);
  if (!turn || dims.size() < 3) return std::nullopt;
  const size_t rows = dims.size() - 1;
  std::vector<size_t> order(rows);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return (*turn)[a] < (*turn)[b]; });
  if (std::is_sorted(order.begin(), order.end())) return std::nullopt;
  Transposed out{maker(g, inner).in[0], {}, Axes(rows + 1, static_cast<ir::Axis>(rows))};
  for (size_t i = 0; i < rows; ++i) {
    out.in_order.push_back((*turn)[order[i]]);
    out.rows[order[i]] = static_cast<ir::Axis>(i);
  }
  out.in_order.insert(out.in_order.end(), turn->begin() + static_cast<int64_t>(rows), turn->end());
  return out;
}

// True if the value is the same for every row.
bool for_columns(const Graph& g, WeightValues& weights, ValueId v) {
  const Dims& dims = g.type(v).dims;
  return weights.contain(g, v) && (dims.empty() || std::all_of(dims.begin(), dims.end() - 1, [](const Dim& d) { return d == Dim(1); }));
}

// If a value is only permuted by the inverse of `rows`, after pointwise operations: the values of these.
std::optional<std::vector<ValueId>> transposed_back(const Graph& g, WeightValues& weights, const std::vector<std::vector<ir::NodeId>>& users, ValueId v, const Axes& rows) {
  std::vector<ValueId> between;
  for (const Dims& dims = g.type(v).dims; users[v].size() == 1;) {
    const Node& n = g.nodes[users[v][0]];
    if (n.op == Op::view) {
      auto turn = turn_of(g, n.out[0]);
      if (!turn) return std::nullopt;
      for (size_t i = 0; i < turn->size(); ++i) {
        if (rows[static_cast<size_t>((*turn)[i])] != static_cast<ir::Axis>(i)) return std::nullopt;
      }
      return between;
    }
    bool columns = is_map(n.op) && g.type(n.out[0]).dims == dims && std::all_of(n.in.begin(), n.in.end(), [&](ValueId x) { return x == v || for_columns(g, weights, x); });
    if (!columns) return std::nullopt;
    v = n.out[0];
    between.push_back(v);
  }
  return std::nullopt;
}

}  // namespace

void sink_transposes(Graph& g) {
  std::vector<std::vector<ir::NodeId>> users(g.values.size());
  for (ir::NodeId n = 0; n < g.nodes.size(); ++n) {
    for (ValueId v : g.nodes[n].in) users[v].push_back(n);
  }
  // A result has another reader.
  for (const ir::Output& o : g.outputs) users[o.value].insert(users[o.value].end(), 2, 0);
  WeightValues weights(g), made(g);  // of the old graph and of the new one
  std::vector<uint8_t> moves(g.values.size(), 0);
  for (const Node& n : g.nodes) {
    if (n.op != Op::matmul || g.type(n.in[1]).dims.size() != 2) continue;
    auto a = transposed(g, n.in[0]);
    auto between = a ? transposed_back(g, weights, users, n.out[0], a->rows) : std::nullopt;
    if (!between) continue;
    moves[n.out[0]] = 1;
    for (ValueId v : *between) moves[v] = 1;
  }
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (!moves[node.out[0]]) return std::nullopt;
    if (node.op == Op::matmul) {
      Transposed a = *transposed(to, in[0]);
      const Dims& dims = to.type(in[0]).dims;
      Dims straight(dims.size(), dims.back());
      for (size_t i = 0; i + 1 < dims.size(); ++i) straight[static_cast<size_t>(a.rows[i])] = dims[i];
      Handle x = ir::reshape(ir::permute(Handle(&to, a.source), a.in_order), straight);
      return ir::permute(ir::matmul(x, Handle(&to, in[1]), node.attributes), a.rows).id();
    }
    std::vector<ValueId> operands = in;
    Axes rows;
    for (ValueId& v : operands) {
      if (for_columns(to, made, v)) continue;
      rows = *turn_of(to, v);
      v = maker(to, v).in[0];
    }
    ir::Type type = infer(to, node.op, operands, node.attributes)[0];
    return ir::permute(Handle(&to, to.add(node.op, operands, node.attributes, std::move(type))), rows).id();
  });
}

}  // namespace ingot::lower
