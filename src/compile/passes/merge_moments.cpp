// Merges a sum and the sum of squared differences from its mean into one node where the backend has a kernel that computes both in one read.
#include <algorithm>
#include <map>

#include "compile/below_views.h"
#include "compile/passes/passes.h"
#include "ir/compose.h"
#include "ir/replace.h"
#include "kernels/definition.h"
#include "kernels/run/kernel.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_sum(const Node& node) { return node.op == Op::reduce && node.attributes.string("kind") == "sum" && !node.attributes.integers("axes").empty(); }

// `v` is broadcast to `dims`. Returns the map from `dims` to the value below its views.
std::optional<AffineMap> map_from(const Graph& g, ValueId v, const Dims& dims) {
  const Dims& own = g.type(v).dims;
  if (own.size() > dims.size()) return std::nullopt;
  const size_t lead = dims.size() - own.size();
  AffineMap all{dims, {}, std::nullopt};
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!(dims[d] == (d < lead ? Dim(1) : own[d - lead]))) return std::nullopt;
    if (d >= lead) all.axes.push_back({0, {{static_cast<uint32_t>(d), 1}}});
  }
  std::vector<const AffineMap*> maps;
  below_views(g, v, &maps);
  for (const AffineMap* map : maps) all = compose(all, *map);
  for (AffineMap::Axis& axis : all.axes) std::erase_if(axis.terms, [&](const AffineMap::Term& t) { return dims[t.axis] == Dim(1); });
  return all;
}

// True if `a` and `b`, broadcast to `dims`, have equal elements.
bool are_same(const Graph& g, ValueId a, ValueId b, const Dims& dims) {
  if (below_views(g, a) != below_views(g, b)) return false;
  const auto x = map_from(g, a, dims), y = map_from(g, b, dims);
  return x && y && *x == *y;
}

// True if `v` is the number `n`.
bool is_number(const Graph& g, ValueId v, const Dim& n) {
  const Node& node = g.producer(v);
  if (node.op == Op::literal) return n.constant() && node.attributes.scalar("value").to_double() == static_cast<double>(*n.constant());
  return node.op == Op::cast && g.producer(node.in[0]).op == Op::size && g.producer(node.in[0]).attributes.dim("dim") == n;
}

// True if `mean`, broadcast to `dims`, is the sum divided by `n`.
bool is_mean_of(const Graph& g, ValueId mean, const Node& sum, const Dims& dims, const Dim& n) {
  std::vector<const AffineMap*> maps;
  const Node& over = g.producer(below_views(g, mean, &maps));
  if (over.op != Op::div || !is_number(g, over.in[1], n)) return false;
  if (below_views(g, over.in[0], &maps) != sum.out[0]) return false;
  AffineMap all{g.type(mean).dims, {}, std::nullopt};
  for (uint32_t d = 0; d < all.dims.size(); ++d) all.axes.push_back({0, {{d, 1}}});
  for (const AffineMap* map : maps) all = compose(all, *map);
  const std::vector<int64_t> axes = sum.attributes.integers("axes");
  const bool keep = sum.attributes.boolean("keep");
  if (all.dims.size() != dims.size()) return false;
  size_t k = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool reduced = std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0;
    if (!(all.dims[d] == (reduced ? Dim(1) : dims[d]))) return false;
    if (reduced) {
      k += keep;
      continue;
    }
    if (k >= all.axes.size()) return false;
    const AffineMap::Axis& axis = all.axes[k++];
    const bool itself = axis.terms.size() == 1 && axis.terms[0].axis == d && axis.terms[0].coefficient == 1;
    if (!(axis.offset == Dim(0)) || (!itself && !(dims[d] == Dim(1)))) return false;
  }
  return true;
}

// Asks the backend for a kernel that reads `x`, with the innermost axis last.
bool is_offered(const Graph& g, ValueId x, std::vector<int64_t> axes, const Backend& backend) {
  Dims dims = g.type(x).dims;
  if (const auto inner = innermost(g, x, Below::views)) {
    std::rotate(dims.begin() + static_cast<int64_t>(*inner), dims.begin() + static_cast<int64_t>(*inner) + 1, dims.end());
    for (int64_t& axis : axes) {
      const auto at = static_cast<int64_t>(*inner);
      axis = axis == at ? std::ssize(dims) - 1 : axis - (axis > at);
    }
  }
  Graph in_order;
  Node sketch;
  sketch.op = Op::moments;
  sketch.in = {in_order.add_input("x", {g.type(x).dtype, dims})};
  sketch.attributes = {{"axes", to_attribute(axes)}};
  const kernels::Definition& moments = *kernels::definition_of(Op::moments);
  const kernels::PlainStep step = moments.plain(in_order, sketch);
  return backend.has_offer({backend::Plain{moments.name, step.constants}, nullptr, {{kernels::Role::input, g.type(x).dtype, backend::unplaced(dims)}}});
}

// Finds the sum whose mean `squares` uses, if the backend has a kernel for both.
std::optional<NodeId> find_sum(const Graph& g, const Node& squares, const Backend& backend) {
  if (!is_sum(squares)) return std::nullopt;
  const Node& square = g.producer(squares.in[0]);
  if (square.op != Op::mul || square.in[0] != square.in[1] || g.producer(square.in[0]).op != Op::sub) return std::nullopt;
  const Node& difference = g.producer(square.in[0]);
  const Dims& dims = g.type(squares.in[0]).dims;
  const Node* over = &g.producer(below_views(g, difference.in[1]));
  if (dims.size() != g.type(difference.in[1]).dims.size() || over->op != Op::div) return std::nullopt;
  const ValueId sum = below_views(g, over->in[0]);
  const Node& first = g.producer(sum);
  const std::vector<int64_t> axes = squares.attributes.integers("axes");
  if (!is_sum(first) || first.attributes.integers("axes") != axes || !are_same(g, first.in[0], difference.in[0], dims)) return std::nullopt;
  Dim n = 1;
  for (int64_t axis : axes) n *= dims[static_cast<size_t>(axis)];
  if (n == Dim(0) || dims.size() > kernels::max_rank || !is_mean_of(g, difference.in[1], first, dims, n)) return std::nullopt;
  const ValueId x = first.in[0];  // not the subtraction's operand, which may lack leading axes of size 1
  return is_offered(g, x, axes, backend) ? std::optional(g.values[sum].producer) : std::nullopt;
}

}  // namespace

void merge_moments(Graph& g, const Backend& backend) {
  std::map<ValueId, ValueId> squares_of, sum_of;  // squares -> sum, and the inverse
  for (const Node& node : g.nodes) {
    if (auto sum = node.out.empty() ? std::nullopt : find_sum(g, node, backend); sum && squares_of.try_emplace(g.nodes[*sum].out[0], node.out[0]).second) {
      sum_of[node.out[0]] = g.nodes[*sum].out[0];
    }
  }
  if (squares_of.empty()) return;
  std::map<ValueId, ValueId> made;  // sum -> new squares
  auto shaped = [](Graph& to, ValueId v, const Dims& dims) { return to.type(v).dims == dims ? v : reshape(Handle(&to, v), dims).id(); };
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    if (node.out.empty()) return std::nullopt;
    const ValueId v = node.out[0];
    if (auto found = squares_of.find(v); found != squares_of.end()) {
      // The kernel reads half types itself: skip the cast below the views.
      std::vector<const AffineMap*> above;
      const ValueId x = below_views(to, in[0], &above);
      std::vector<AffineMap> maps;  // copies: adding nodes moves the old ones
      for (const AffineMap* map : above) maps.push_back(*map);
      const Node& widens = to.producer(x);
      const bool half = widens.op == Op::cast && to.type(x).dtype == DType::f32 && size_of(to.type(widens.in[0]).dtype) == 2 && is_float(to.type(widens.in[0]).dtype);
      Handle h(&to, half ? widens.in[0] : in[0]);
      for (size_t k = maps.size(); half && k-- > 0;) h = view(h, maps[k]);
      const std::vector<int64_t> axes = node.attributes.integers("axes");
      auto [sums, squares] = moments(h, Axes(axes.begin(), axes.end()));
      made[v] = shaped(to, squares.id(), g.type(found->second).dims);
      return shaped(to, sums.id(), g.type(v).dims);
    }
    if (auto found = sum_of.find(v); found != sum_of.end()) return made.at(found->second);
    return std::nullopt;
  });
}

}  // namespace ingot::compile
