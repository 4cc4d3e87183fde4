// The same computation twice becomes one.
#include <map>

#include "lower/passes.h"

namespace ingot::lower {

using namespace ir;

void merge_equal(Graph& g) {
  std::vector<ValueId> now(g.values.size());
  for (ValueId v = 0; v < now.size(); ++v) now[v] = v;
  std::map<std::pair<Op, std::vector<ValueId>>, std::vector<NodeId>> seen;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    Node& node = g.nodes[n];
    for (ValueId& v : node.in) v = now[v];
    if (node.op == Op::input || node.op == Op::weight || node.op == Op::random) continue;
    auto& candidates = seen[{node.op, node.in}];
    bool merged = false;
    for (NodeId c : candidates) {
      const Node& other = g.nodes[c];
      bool same = other.attributes == node.attributes && other.out.size() == node.out.size();
      for (size_t i = 0; same && i < node.out.size(); ++i) same = g.type(other.out[i]) == g.type(node.out[i]);
      if (!same) continue;
      for (size_t i = 0; i < node.out.size(); ++i) now[node.out[i]] = other.out[i];
      merged = true;
      break;
    }
    if (!merged) candidates.push_back(n);
  }
  for (Output& o : g.outputs) o.value = now[o.value];
}

}  // namespace ingot::lower
