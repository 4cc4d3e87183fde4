#include "compile/expand.h"

#include <algorithm>
#include <limits>

#include "ir/compose.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

ValueId written_out(Graph& to, const Node& node, const std::vector<ValueId>& in) {
  Handle q(&to, in[0]), k(&to, in[1]), v(&to, in[2]);
  DType type = q.dtype(), exact = compute_type(type);
  Handle scores = cast(matmul(q, transpose(k, -1, -2)), exact) * node.attributes.number("scale");
  const double low = -std::numeric_limits<double>::infinity();
  if (in.size() == 4) {
    Handle mask(&to, in[3]);
    scores = mask.dtype() == DType::b8 ? select(mask, scores, low) : scores + cast(mask, exact);
  }
  if (node.attributes.boolean("causal")) {
    Dims square{scores.dim(-2), scores.dim(-1)};
    scores = select(index(to, square, 1) <= index(to, square, 0), scores, low);
  }
  // A row that sees no key gives 0: its largest score is -inf, and nothing is subtracted.
  Handle largest = amax(scores, {-1}, keep);
  Handle e = exp(scores - select(equal(largest, low), 0.0, largest));
  Handle total = sum(e, {-1}, keep);
  return matmul(cast(e / select(equal(total, 0.0), 1.0, total), type), v).id();
}

}  // namespace

Graph without_attention(Graph g, FunctionRef<bool(const Type&, const Type&)> stays) {
  auto goes = [&](const Node& n) { return n.op == Op::attention && !stays(g.type(n.in[0]), g.type(n.in[2])); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), goes)) return g;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) {
    return goes(node) ? std::optional(written_out(to, node, in)) : std::nullopt;
  });
  return g;
}

}  // namespace ingot::compile
