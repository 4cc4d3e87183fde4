// Common subexpressions: equal nodes become one.
#include <unordered_map>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

void mix(size_t& h, size_t more) { h = h * 0x100000001b3ULL ^ more; }

// Equal attributes have equal hashes. Of maps and lists only a part is hashed, enough to distinguish nearly all of them.
void mix(size_t& h, const ir::Attribute& a) {
  mix(h, a.value.index());
  if (const auto* b = std::get_if<bool>(&a.value)) mix(h, std::hash<bool>()(*b));
  if (const auto* i = std::get_if<int64_t>(&a.value)) mix(h, std::hash<int64_t>()(*i));
  if (const auto* d = std::get_if<double>(&a.value)) mix(h, std::hash<double>()(*d));
  if (const auto* t = std::get_if<std::string>(&a.value)) mix(h, std::hash<std::string>()(*t));
  if (const auto* t = std::get_if<ir::DType>(&a.value)) mix(h, static_cast<size_t>(*t));
  if (const auto* d = std::get_if<Dim>(&a.value)) mix(h, d->hash());
  if (const auto* list = std::get_if<ir::List>(&a.value)) {
    for (const ir::Attribute& part : *list) mix(h, part);
  }
  if (const auto* map = std::get_if<ir::AffineMap>(&a.value)) {
    for (const Dim& d : map->dims) mix(h, d.hash());
    for (const ir::AffineMap::Axis& axis : map->axes) mix(h, axis.offset.hash());
  }
}

}  // namespace

void cse(Graph& g) {
  std::unordered_multimap<size_t, ir::NodeId> seen;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (has_effect(node.op) || node.out.size() != 1) return std::nullopt;
    size_t h = static_cast<size_t>(node.op);
    for (ValueId v : in) mix(h, size_t{v});
    for (const auto& [name, value] : node.attributes) mix(h, value);
    for (auto [at, end] = seen.equal_range(h); at != end; ++at) {
      const Node& other = to.nodes[at->second];
      if (other.op == node.op && other.in == in && other.attributes == node.attributes) return other.out[0];
    }
    seen.emplace(h, static_cast<ir::NodeId>(to.nodes.size()));
    return std::nullopt;
  });
}

}  // namespace ingot::lower
