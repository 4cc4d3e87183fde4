// Linear layers of one input (query, key and value; gate and up) become one matmul with their weights concatenated, and slices of its result. Prepare
// concatenates, once.
#include <map>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

struct Member {
  ir::NodeId matmul;
  ir::NodeId bias = ir::none_id;  // the addition after it
  ValueId bias_value = ir::none_id;
};

// x[.., K] * w[K, N] with w made of weights.
bool is_linear(const Graph& g, WeightValues& weights, const Node& n) {
  // Of two convolutions of one image each ends in its own way (normalised, added to a residual, activated), which kernels do on their results as they compute them.
  return n.op == Op::matmul && !ir::is_convolution(n) && g.type(n.in[0]).dims.size() >= 2 && g.type(n.in[1]).dims.size() == 2 && weights.contain(g, n.in[1]);
}

// A merged matmul stands at its first member, where the views and concatenations of a later member's weight may not exist yet: they are made here, and
// `cse` merges the copies.
ValueId weight_in(Graph& to, const Graph& from, ValueId v, const std::vector<ValueId>& renamed) {
  if (renamed[v] != ir::none_id) return renamed[v];
  const Node& n = maker(from, v);
  std::vector<ValueId> in;
  for (ValueId i : n.in) in.push_back(weight_in(to, from, i, renamed));
  return to.add(n.op, std::move(in), n.attributes, from.type(v));
}

// True if all leaves of a weight's expression stand before a node.
bool available(const Graph& g, ValueId v, ir::NodeId before) {
  const Node& n = maker(g, v);
  if (n.op == Op::weight) return g.values[v].producer < before;
  for (ValueId i : n.in) {
    if (!available(g, i, before)) return false;
  }
  return true;
}

}  // namespace

void merge_linears(Graph& g) {
  WeightValues weights(g);
  auto users = g.users();
  std::vector<bool> is_output(g.values.size(), false);
  for (const ir::Output& o : g.outputs) is_output[o.value] = true;
  std::map<ValueId, std::vector<Member>> by_input;
  for (ir::NodeId i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    if (!is_linear(g, weights, n)) continue;
    Member m{i};
    // The bias: the only reader adds a row of weights.
    if (users[n.out[0]].size() == 1 && !is_output[n.out[0]]) {
      const Node& add = g.nodes[users[n.out[0]][0]];
      if (add.op == Op::add && add.in[0] != add.in[1]) {
        ValueId other = add.in[0] == n.out[0] ? add.in[1] : add.in[0];
        const Dims& d = g.type(other).dims;
        if (d.size() == 1 && d[0] == g.type(n.out[0]).dims.back() && weights.contain(g, other) && g.type(add.out[0]).dims == g.type(n.out[0]).dims) {
          m.bias = users[n.out[0]][0];
          m.bias_value = other;
        }
      }
    }
    by_input[n.in[0]].push_back(m);
  }
  struct Group {
    std::vector<Member> members;
    std::vector<Dim> starts;
    ValueId merged = ir::none_id;  // in the new graph, bias included
  };
  std::vector<Group> groups;
  std::map<ir::NodeId, std::pair<size_t, size_t>> place;  // node that gives a member's result -> group, member
  std::map<ir::NodeId, size_t> first;
  for (auto& [x, members] : by_input) {
    // All with a bias or all without: a missing one would cost an addition of zeros.
    for (bool biased : {true, false}) {
      std::vector<Member> some;
      for (const Member& m : members) {
        if ((m.bias != ir::none_id) != biased) continue;
        const Node& n = g.nodes[m.matmul];
        ir::NodeId leader = some.empty() ? m.matmul : some[0].matmul;
        bool ready = available(g, n.in[1], leader) && (!biased || available(g, m.bias_value, leader));
        const Node& other = g.nodes[leader];
        if (ready && g.type(n.in[1]).dtype == g.type(other.in[1]).dtype && n.attributes == other.attributes) some.push_back(m);
      }
      if (some.size() < 2) continue;
      Group group{some, {Dim(0)}};
      for (const Member& m : some) group.starts.push_back(group.starts.back() + g.type(g.nodes[m.matmul].in[1]).dims[1]);
      for (size_t i = 0; i < some.size(); ++i) place[biased ? some[i].bias : some[i].matmul] = {groups.size(), i};
      first[some[0].matmul] = groups.size();
      groups.push_back(std::move(group));
    }
  }
  if (groups.empty()) return;
  auto merge = [&](Graph& to, Group& group, ValueId x, const std::vector<ValueId>& renamed) {
    std::vector<Handle> weights, biases;
    for (const Member& m : group.members) {
      // Concatenated as [N, K], the way layers store them.
      weights.push_back(ir::transpose(Handle(&to, weight_in(to, g, g.nodes[m.matmul].in[1], renamed)), 0, 1));
      if (m.bias != ir::none_id) biases.push_back(Handle(&to, weight_in(to, g, m.bias_value, renamed)));
    }
    Handle y = ir::matmul(Handle(&to, x), ir::transpose(ir::concat(weights, 0), 0, 1), g.nodes[group.members[0].matmul].attributes);
    if (!biases.empty()) y = y + ir::concat(biases, 0);
    group.merged = y.id();
  };
  rewrite_named(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    ir::NodeId id = g.values[node.out[0]].producer;
    if (auto f = first.find(id); f != first.end()) {
      merge(to, groups[f->second], in[0], renamed);
    }
    auto p = place.find(id);
    if (p == place.end()) return std::nullopt;
    Group& group = groups[p->second.first];
    if (group.merged == ir::none_id) return std::nullopt;
    size_t i = p->second.second;
    Handle y(&to, group.merged);
    Dims dims = y.dims();
    int64_t last = y.rank() - 1;
    return ir::view(y, ir::slice_map(dims, last, group.starts[i], group.starts[i + 1] - group.starts[i], 1)).id();
  });
}

}  // namespace ingot::lower
