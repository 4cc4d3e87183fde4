#include "partition/partition.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>

#include "base/error.h"
#include "ir/symbols.h"
#include "ir/written.h"
#include "partition/choice.h"
#include "partition/gain.h"
#include "partition/schedule.h"

namespace ingot::partition {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

// Finds the inputs and outputs of segments.
class Binder {
 public:
  explicit Binder(const Graph& g) : g_(g), users_(g.users()), is_state_(g.values.size(), false), output_(g.values.size(), g.outputs.size()), carriers_(g.symbols.size()) {
    const std::vector<ValueId> written = ir::written_by_outputs(g);
    for (size_t i = g.outputs.size(); i-- > 0;) {
      output_[g.outputs[i].value] = i;
      if (g.outputs[i].to == ir::Output::To::weight) is_state_[written[i]] = true;
    }
    for (ValueId v = 0; v < g.values.size(); ++v) {
      if (g.producer(v).op == Op::weight) continue;
      for (const ir::Dim& d : g.type(v).dims) {
        auto size = ir::linear_size(d);
        if (size && (carriers_[size->symbol].empty() || carriers_[size->symbol].back() != v)) carriers_[size->symbol].push_back(v);
      }
    }
  }

  void bind(Segment& s, uint32_t index, const Schedule& schedule, const std::vector<bool>& here, const Machine& machine) const {
    auto inside = [&](NodeId n) { return g_.nodes[n].op == Op::call && schedule.segment_of[n] == index; };
    std::set<ValueId> seen;
    std::set<ir::SymbolId> used, bound;
    auto take = [&](ValueId v) {
      if (!seen.insert(v).second) return;
      s.inputs.push_back(v);
      for (const ir::Dim& d : g_.type(v).dims) {
        if (auto size = ir::linear_size(d)) bound.insert(size->symbol);
      }
    };
    for (NodeId n : s.nodes) {
      for (ValueId v : g_.nodes[n].in) {
        // Between segments, a buffer that the model writes is an ordinary value.
        if ((g_.producer(v).op == Op::weight && !is_state_[v]) || inside(g_.values[v].producer)) continue;
        take(v);
      }
      for (ir::SymbolId symbol : ir::used_symbols(g_, g_.nodes[n])) used.insert(symbol);
    }
    for (ValueId v : s.inputs) {
      std::vector<ir::SymbolId> in_dims;
      for (const ir::Dim& d : g_.type(v).dims) d.collect_symbols(in_dims);
      used.insert(in_dims.begin(), in_dims.end());
    }
    // A size that is not an axis of an input needs another input: the first tensor that has it before the segment runs. Without one, the nodes that use it are refused.
    auto earlier = [&](ValueId v) { return g_.producer(v).op != Op::call || schedule.turn[g_.values[v].producer] < schedule.turn[s.nodes.front()]; };
    for (ir::SymbolId symbol : used) {
      if (bound.contains(symbol)) continue;
      auto carrier = std::find_if(carriers_[symbol].begin(), carriers_[symbol].end(), earlier);
      if (carrier != carriers_[symbol].end()) take(*carrier);
    }
    // Values needed outside; the model's outputs come first, in order.
    for (NodeId n : s.nodes) {
      for (ValueId v : g_.nodes[n].out) {
        const bool read = std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId user) { return !inside(user); });
        if (read || output_[v] < g_.outputs.size()) s.outputs.push_back(v);
      }
    }
    std::stable_sort(s.outputs.begin(), s.outputs.end(), [&](ValueId a, ValueId b) { return output_[a] < output_[b]; });
    for (ValueId v : s.outputs) {
      const bool in_torch_too = std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId n) { return g_.nodes[n].op == Op::call && !here[n]; });
      s.orders.push_back(in_torch_too ? g_.values[v].order : std::vector<int64_t>());
    }
    s.gain = 0;
    for (NodeId n : s.nodes) s.gain += saved_by(g_, n, machine);
    s.cost = cost_of_call(s.inputs.size() + s.outputs.size(), machine);
  }

 private:
  const Graph& g_;
  const std::vector<std::vector<NodeId>> users_;  // per value
  std::vector<bool> is_state_;                    // per value: a buffer that the model writes
  std::vector<size_t> output_;                    // per value: the index of the first output with this value, or the number of outputs
  std::vector<std::vector<ValueId>> carriers_;    // per size: values that have it as an axis, except weights
};

bool is_whole(const Graph& g, const Partition& p, const Choice& choice) {
  if (p.segments.size() > 1) return false;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    if (g.nodes[n].op == Op::call && !choice.here[n]) return false;
    if (g.nodes[n].op == Op::input && g.nodes[n].attributes.find("torch_only") != nullptr) return false;
  }
  return true;
}

// Keeps in torch the nodes of segments that do not pay. True if there are some.
bool drop_small(Choice& choice, const Partition& p, const Settings& settings) {
  bool dropped = false;
  auto least = static_cast<size_t>(settings.min_block_size);
  for (const Segment& s : p.segments) {
    std::string reason;
    if (least > 0 && s.nodes.size() < least) {
      reason = fmt::format("it would be in a segment of {} operator{}; min_block_size is {}", s.nodes.size(), s.nodes.size() == 1 ? "" : "s", least);
    } else if (least == 0 && s.gain <= s.cost) {
      reason = fmt::format("it would be in a segment of {} operator{}, which gains less ({:.0f} us) than calling an engine costs ({:.0f} us)", s.nodes.size(),
                           s.nodes.size() == 1 ? "" : "s", s.gain, s.cost);
    } else if (s.outputs.empty()) {
      reason = "its results are never read";
    } else {
      continue;
    }
    for (NodeId n : s.nodes) choice.stay(n, reason);
    dropped = true;
  }
  return dropped;
}

}  // namespace

Partition partition(const Graph& captured, const std::vector<Refused>& refused, const Settings& settings) {
  Choice choice(captured, refused);
  keep_named(choice, captured, settings);
  const Binder binder(captured);
  for (;;) {
    Schedule order = schedule(captured, choice.here);
    for (uint32_t s = 0; s < order.segments.size(); ++s) binder.bind(order.segments[s], s, order, choice.here, settings.machine);
    Partition out;
    out.segment_of = std::move(order.segment_of);
    out.segments = std::move(order.segments);
    out.whole = is_whole(captured, out, choice);
    if (!out.whole && drop_small(choice, out, settings)) continue;
    out.reason = std::move(choice.reason);
    return out;
  }
}

Graph extract(const Graph& g, const Segment& s) {
  Graph out;
  out.symbols = g.symbols;
  std::unordered_map<ValueId, ValueId> renamed;
  std::unordered_map<ir::OriginId, ir::OriginId> origins;
  auto origin = [&](ir::OriginId id) {
    if (id == ir::none_id) return id;
    auto [found, made] = origins.try_emplace(id, static_cast<ir::OriginId>(out.origins.size()));
    if (made) out.origins.push_back(g.origins[id]);
    return found->second;
  };
  for (ValueId v : s.inputs) {
    std::string name = g.values[v].name;
    for (const ir::Input& i : g.inputs) {
      if (g.producer(v).op == Op::input && i.value == v) name = i.name;
    }
    renamed[v] = out.add_input(std::move(name), g.type(v));
    out.values[renamed[v]].order = g.values[v].order;
  }
  for (NodeId n : s.nodes) {
    for (ValueId v : g.nodes[n].in) {
      if (renamed.contains(v)) continue;
      const ir::Weight* w = g.weight_of(v);
      if (w == nullptr) fail(Code::internal, "a segment reads {} before it is computed", g.values[v].name);
      renamed[v] = out.add_weight(*w, g.type(v));
    }
    const Node& node = g.nodes[n];
    std::vector<ValueId> in;
    std::vector<ir::Type> types;
    for (ValueId v : node.in) in.push_back(renamed.at(v));
    for (ValueId v : node.out) types.push_back(g.type(v));
    out.current_origin = origin(node.origin);
    NodeId made = out.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) {
      ValueId v = out.nodes[made].out[i];
      renamed[node.out[i]] = v;
      out.values[v].name = g.values[node.out[i]].name;
      out.values[v].order = g.values[node.out[i]].order;
    }
  }
  out.current_origin = ir::none_id;
  for (size_t i = 0; i < s.outputs.size(); ++i) {
    ValueId v = s.outputs[i], made = renamed.at(v);
    if (!s.orders[i].empty()) {
      ir::Type type = g.type(v);
      for (size_t d = 0; d < s.orders[i].size(); ++d) type.dims[d] = g.type(v).dims[static_cast<size_t>(s.orders[i][d])];
      made = out.add(Op::call, {made}, {{"dims", ir::to_attribute(s.orders[i])}, {"self", ir::Ref{0}}, {"target", "aten.permute.default"}}, std::move(type));
    }
    out.outputs.push_back({made, g.values[v].name, {}});
  }
  return out;
}

}  // namespace ingot::partition
