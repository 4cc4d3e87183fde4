#include "ir/constants.h"

#include <algorithm>

#include "ir/symbols.h"

namespace ingot::ir {

bool is_elementary(Op op) { return cost_of(op) == Cost::function || cost_of(op) == Cost::root; }

namespace {

// The elements in memory that a value's views read.
Dim elements_behind(const Graph& g, ValueId v) {
  while (is_view(g.producer(v).op)) v = g.producer(v).in[0];
  return product(g.type(v).dims);
}

bool is_at_most(const Dim& a, const Dim& b) { return a == b || (a.is_constant() && b.is_constant() && a.value() <= b.value()); }

}  // namespace

Constants find_constants(const Graph& g) {
  const size_t count = g.values.size();
  Constants c{std::vector<bool>(count), std::vector<bool>(count), std::vector<bool>(count)};
  for (const Node& node : g.nodes) {
    bool free = !is_leaf(node.op) && !has_effect(node.op), sized = reads_symbol(g, node);
    for (ValueId v : node.in) {
      free = free && c.free[v];
      sized = sized || c.sized[v];
    }
    for (ValueId v : node.out) {
      c.free[v] = free;
      c.sized[v] = sized;
      if (!free || is_generated(node.op)) continue;
      if (is_view(node.op)) {
        c.table[v] = c.table[node.in[0]];
        continue;
      }
      // A map that only repeats its operands is computed where it is read.
      const Dim size = product(g.type(v).dims);
      const bool made = !is_map(node.op) || is_elementary(node.op);
      c.table[v] = !is_map(node.op) || std::any_of(node.in.begin(), node.in.end(), [&](ValueId in) { return (made || c.table[in]) && is_at_most(size, elements_behind(g, in)); });
    }
  }
  return c;
}

}  // namespace ingot::ir
