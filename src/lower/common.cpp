// Equal nodes become one.
#include <unordered_map>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

void common(Graph& g) {
  std::unordered_multimap<size_t, ir::NodeId> seen;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op == Op::random || node.op == Op::row || node.out.size() != 1) return std::nullopt;
    size_t h = static_cast<size_t>(node.op);
    for (ValueId v : in) h = h * 0x100000001b3ULL ^ v;
    for (auto [at, end] = seen.equal_range(h); at != end; ++at) {
      const Node& other = to.nodes[at->second];
      if (other.op == node.op && other.in == in && other.attributes == node.attributes) return other.out[0];
    }
    seen.emplace(h, static_cast<ir::NodeId>(to.nodes.size()));
    return std::nullopt;
  });
}

}  // namespace ingot::lower
