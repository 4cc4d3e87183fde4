#include "partition/schedule.h"

#include <algorithm>
#include <set>

#include "ir/symbols.h"

namespace ingot::partition {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

// The nodes that must run before a node: those whose results it reads and, for each size that it uses,
// the first node that gives or reads that size.
std::vector<std::vector<NodeId>> dependencies(const Graph& g, const std::vector<bool>& here) {
  std::vector<std::vector<NodeId>> before(g.nodes.size());
  std::vector<NodeId> maker(g.symbols.size(), ir::none_id);
  std::vector<bool> known(g.symbols.size(), false);
  auto note = [&](ValueId v, NodeId by) {
    for (const ir::Dim& d : g.type(v).dims) {
      if (auto size = ir::linear_size(d); size && !known[size->symbol]) {
        known[size->symbol] = true;
        maker[size->symbol] = by;
      }
    }
  };
  for (const ir::Input& i : g.inputs) note(i.value, ir::none_id);
  const std::vector<uint32_t> read = ir::read_symbols(g);
  for (ir::SymbolId s = 0; s < read.size(); ++s) {
    if (read[s] == ir::none_id || known[s]) continue;
    known[s] = true;
    maker[s] = g.values[g.outputs[read[s]].value].producer;
  }
  NodeId last_effect = ir::none_id;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    if (node.op != Op::call) continue;
    auto add = [&](NodeId b) {
      if (b != ir::none_id && b != n && g.nodes[b].op == Op::call) before[n].push_back(b);
    };
    for (ValueId v : node.in) add(g.values[v].producer);
    for (ValueId v : node.out) note(v, n);
    for (ir::SymbolId s : ir::used_symbols(g, node)) add(maker[s]);
    if (!here[n]) {  // torch's nodes keep their order: random numbers, prints, writes
      add(last_effect);
      last_effect = n;
    }
  }
  return before;
}

}  // namespace

// Alternates: runs all ready nodes of torch, then all ready nodes that can run here, which form a segment.
Schedule schedule(const Graph& g, const std::vector<bool>& can_run_here) {
  const size_t n = g.nodes.size();
  Schedule out;
  out.segment_of.assign(n, in_torch);
  out.turn.assign(n, 0);
  const std::vector<std::vector<NodeId>> before = dependencies(g, can_run_here);
  std::vector<uint32_t> waits(n, 0);
  std::vector<std::vector<NodeId>> after(n);
  size_t left = 0;
  for (NodeId i = 0; i < n; ++i) {
    if (g.nodes[i].op != Op::call) continue;
    ++left;
    waits[i] = static_cast<uint32_t>(before[i].size());
    for (NodeId b : before[i]) after[b].push_back(i);
  }
  std::set<NodeId> ready[2];  // torch, here; ordered by position, to keep the program's order
  for (NodeId i = 0; i < n; ++i) {
    if (g.nodes[i].op == Op::call && waits[i] == 0) ready[can_run_here[i]].insert(i);
  }
  uint32_t turn = 0;
  for (bool here = false; left > 0; here = !here) {
    Segment segment;
    ++turn;
    while (!ready[here].empty()) {
      NodeId i = *ready[here].begin();
      ready[here].erase(ready[here].begin());
      --left;
      out.turn[i] = turn;
      if (here) {
        segment.nodes.push_back(i);
        out.segment_of[i] = static_cast<uint32_t>(out.segments.size());
      }
      for (NodeId a : after[i]) {
        if (--waits[a] == 0) ready[can_run_here[a]].insert(a);
      }
    }
    if (segment.nodes.empty()) continue;
    std::sort(segment.nodes.begin(), segment.nodes.end());
    out.segments.push_back(std::move(segment));
  }
  return out;
}

}  // namespace ingot::partition
