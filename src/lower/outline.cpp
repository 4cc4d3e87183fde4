#include "lower/outline.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "ir/symbols.h"

namespace ingot::lower {

namespace {

using ir::Graph;
using ir::Node;
using ir::none_id;
using ir::Op;
using ir::Output;
using ir::Regions;
using ir::ValueId;

bool is_control(Op op) { return op == Op::branch || op == Op::loop; }

bool is_straight(const Graph& g) {
  const bool reads = std::any_of(g.outputs.begin(), g.outputs.end(), [](const Output& o) { return o.to == Output::To::size; });
  return !reads && std::none_of(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return is_control(n.op); });
}

// Regions have levels. At level 0 nothing has run; a straight region of level n runs behind everything of lower levels, then branches and loops of
// level n, then sizes are read from what there is.
class Outliner {
 public:
  Outliner(std::vector<ir::NamedGraph>& functions, size_t function)
      : functions_(functions), name_(functions[function].name), g_(functions[function].graph), read_(ir::read_symbols(g_)), level_(g_.nodes.size(), 0) {
    find_levels();
    number_bindings();
  }

  Regions run() {
    last_ = 1;
    for (uint32_t level : level_) last_ = std::max(last_, level);
    for (uint32_t level : symbol_level_) last_ = std::max(last_, level);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (is_control(g_.nodes[n].op)) last_ = std::max(last_, level_[n] + 1);
    }
    demand();
    // From the last to the first: what a region reads is asked of those before it.
    std::vector<std::vector<Regions::Region>> levels(last_ + 1);
    for (uint32_t level = last_; level > 0; --level) {
      if (std::optional<Regions::Call> call = straight(level)) {
        levels[level].emplace_back().calls.push_back(std::move(*call));
      }
    }
    for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
      if (is_control(g_.nodes[n].op)) levels[level_[n]].push_back(control(n));
    }
    for (ir::SymbolId s = 0; s < read_.size(); ++s) {
      if (read_[s] == none_id) continue;
      const uint32_t at = symbol_level_[s] - 1;
      if (levels[at].empty()) levels[at].emplace_back();
      const ValueId v = g_.outputs[read_[s]].value;
      levels[at].back().reads.push_back({number_of(v), s, g_.producer(v).origin});
    }
    for (auto& level : levels) {
      for (Regions::Region& r : level) out_.list.push_back(std::move(r));
    }
    return std::move(out_);
  }

 private:
  // ---- levels

  void find_levels() {
    constexpr uint32_t unknown = UINT32_MAX / 2;
    symbol_level_.assign(g_.symbols.size(), 0);
    for (size_t s = 0; s < read_.size(); ++s) {
      if (read_[s] != none_id) symbol_level_[s] = unknown;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
        const Node& node = g_.nodes[n];
        if (is_leaf(node.op)) continue;
        uint32_t level = 1;
        for (ValueId v : node.in) level = std::max(level, available(v));
        for (ir::SymbolId s : ir::used_symbols(g_, node)) level = std::max(level, symbol_level_[s]);
        level_[n] = std::min(level, unknown);
      }
      for (size_t s = 0; s < read_.size(); ++s) {
        if (read_[s] == none_id) continue;
        const ir::NodeId maker = g_.values[g_.outputs[read_[s]].value].producer;
        // Inputs are in memory before anything runs. A weight is brought there by the first region.
        const uint32_t behind = g_.nodes[maker].op == Op::input ? 0 : std::max<uint32_t>(level_[maker], 1);
        const uint32_t level = std::min(behind + 1, unknown);
        changed = changed || level != symbol_level_[s];
        symbol_level_[s] = level;
      }
    }
    for (size_t s = 0; s < read_.size(); ++s) {
      if (symbol_level_[s] >= unknown) fail(Code::internal, "size {} is read from what depends on it", g_.symbols[s].name);
    }
  }
  uint32_t available(ValueId v) const {
    const ir::NodeId n = g_.values[v].producer;
    return level_[n] + (is_control(g_.nodes[n].op) ? 1 : 0);
  }
  uint32_t level_of(const ir::Dim& d) const {
    std::vector<ir::SymbolId> symbols;
    d.collect_symbols(symbols);
    uint32_t level = 1;
    for (ir::SymbolId s : symbols) level = std::max(level, symbol_level_[s]);
    return level;
  }

  // ---- values

  // The function's own inputs, results and states have the first numbers.
  void number_bindings() {
    uint32_t n = 0;
    for (const ir::Input& i : g_.inputs) number_[i.value] = n++;
    for (const Output& o : g_.outputs) {
      if (o.to == Output::To::caller) results_.push_back({o.value, o.name, n++});
    }
    for (const Output& o : g_.outputs) {
      if (o.to == Output::To::weight) state_number_[o.name] = n++;
    }
    bindings_ = n;
  }
  uint32_t add_value(const ir::Type& type) {
    out_.values.push_back(type);
    return bindings_ + static_cast<uint32_t>(out_.values.size() - 1);
  }
  uint32_t number_of(ValueId v) {
    auto [found, made] = number_.try_emplace(v, 0);
    if (made) found->second = add_value(g_.type(v));
    return found->second;
  }

  // ---- what each straight region has to give

  // A value that a region computes again rather than reading it from memory.
  bool is_free(const Node& node) const { return is_generated(node.op) || is_view(node.op); }
  // `v` in memory behind level `level`: computed by the region of its own, or by the one at `level` when no region stores it.
  void want(ValueId v, uint32_t level) {
    const Node& node = g_.producer(v);
    if (node.op == Op::input || is_control(node.op)) return;
    const uint32_t at = is_free(node) || node.op == Op::weight ? std::max<uint32_t>(level, 1) : level_[g_.values[v].producer];
    wanted_[at].insert(v);
  }

  void demand() {
    wanted_.resize(last_ + 1);
    std::set<ValueId> once;
    for (const Result& result : results_) {
      const ValueId v = result.value;
      const Node& node = g_.producer(v);
      // A region or branch writes it where the caller wants it. All others are copied there at the end.
      const bool direct = !is_leaf(node.op) && !is_free(node) && node.op != Op::loop && once.insert(v).second;
      if (direct) {
        number_[v] = result.number;
        want(v, last_);
      } else {
        copied_.push_back(result);
      }
    }
    for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
      if (!is_control(g_.nodes[n].op)) continue;
      for (ValueId v : g_.nodes[n].in) want(v, level_[n]);
    }
    for (size_t s = 0; s < read_.size(); ++s) {
      if (read_[s] != none_id) want(g_.outputs[read_[s]].value, symbol_level_[s] - 1);
    }
  }

  // The straight region of a level; nothing when there is nothing to do.
  std::optional<Regions::Call> straight(uint32_t level) {
    Graph r;
    r.symbols = g_.symbols;
    Regions::Call call{none_id, {}};
    std::unordered_map<ValueId, ValueId> have;
    // What is not computed here.
    auto leaf = [&](ValueId v) {
      const Node& node = g_.producer(v);
      if (node.op == Op::weight) return r.add_weight(*g_.weight_of(v), g_.type(v));
      if (node.op == Op::input) {
        const ir::Input& i = *std::find_if(g_.inputs.begin(), g_.inputs.end(), [&](const ir::Input& x) { return x.value == v; });
        call.values.push_back(number_.at(v));
        return r.add_input(i.name, g_.type(v), i.order);
      }
      if (!is_control(node.op) && (level_[g_.values[v].producer] == level || is_free(node))) return none_id;
      want(v, level);
      call.values.push_back(number_of(v));
      return r.add_input(name_of(number_of(v)), g_.type(v));
    };
    auto bring = [&](ValueId wanted) {
      for (std::vector<ValueId> todo{wanted}; !todo.empty();) {
        const ValueId v = todo.back();
        const Node& node = g_.producer(v);
        if (!have.contains(v)) {
          if (const ValueId made = leaf(v); made != none_id) have[v] = made;
        }
        auto missing = std::find_if(node.in.begin(), node.in.end(), [&](ValueId in) { return !have.contains(in); });
        if (!have.contains(v) && missing != node.in.end()) {
          todo.push_back(*missing);
          continue;
        }
        if (!have.contains(v)) copy(r, node, have);
        todo.pop_back();
      }
      return have.at(wanted);
    };
    std::vector<uint32_t> results, states;
    for (ValueId v : wanted_[level]) {
      r.outputs.push_back({bring(v), name_of(number_of(v)), {}});
      results.push_back(number_of(v));
    }
    if (level == last_) {
      for (const Result& result : copied_) {
        r.outputs.push_back({bring(result.value), result.name, {}});
        results.push_back(result.number);
      }
    }
    for (const Output& o : g_.outputs) {
      if (o.to != Output::To::input && o.to != Output::To::weight) continue;
      const ValueId memory = g_.written_by(o);
      // All is written at the end. A state that is only read here is one as well.
      if (level == last_ ? false : o.to == Output::To::input || !have.contains(memory)) continue;
      r.outputs.push_back({bring(level == last_ ? o.value : memory), o.name, {}, o.to});
      bring(memory);
      if (o.to == Output::To::weight) states.push_back(state_number_.at(o.name));
    }
    for (const ir::Check& c : g_.checks) {
      if (std::max(level_of(c.left), level_of(c.right)) != level) continue;
      r.checks.push_back(c);
      r.checks.back().origin = origin(r, c.origin);
    }
    r.current_origin = none_id;
    r.current_group = 0;
    if (r.outputs.empty() && r.checks.empty()) return std::nullopt;
    ir::verify(r, ir::Level::canonical);
    call.values.insert(call.values.end(), results.begin(), results.end());
    call.values.insert(call.values.end(), states.begin(), states.end());
    call.function = keep(std::move(r), fmt::format("{}.{}", name_, level));
    return call;
  }

  void copy(Graph& to, const Node& node, std::unordered_map<ValueId, ValueId>& have) const {
    std::vector<ValueId> in;
    std::vector<ir::Type> types;
    for (ValueId v : node.in) in.push_back(have.at(v));
    for (ValueId v : node.out) types.push_back(g_.type(v));
    to.current_origin = origin(to, node.origin);
    to.current_group = node.group;
    const ir::NodeId made = to.add_node(node.op, std::move(in), node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) {
      have[node.out[i]] = to.nodes[made].out[i];
      to.values[to.nodes[made].out[i]].name = g_.values[node.out[i]].name;
    }
  }

  ir::OriginId origin(Graph& to, ir::OriginId id) const { return id == none_id ? id : to.add_origin(g_.origins[id]); }

  // For people; inputs of the model keep their names, by which they are written.
  std::string name_of(uint32_t number) const {
    for (const Result& r : results_) {
      if (r.number == number) return r.name;
    }
    return fmt::format(".{}", number);
  }

  // ---- branches and loops

  // Where a loop's body gives a carried value with some elements changed, or none, it writes these into the value's memory, instead of a new value. True if it does.
  static bool write_in_place(Graph& body, size_t i) {
    Output& o = body.outputs[i];
    ValueId base = o.value;
    auto changes_some = [](Op op) { return op == Op::update || op == Op::scatter || op == Op::scatter_along; };
    while (changes_some(body.producer(base).op)) base = body.producer(base).in[0];
    if (base != body.inputs[i].value) return false;
    o = {o.value, body.inputs[i].name, {}, Output::To::input};
    return true;
  }

  Regions::Region control(ir::NodeId n) {
    const Node& node = g_.nodes[n];
    const std::vector<ir::GraphRef> graphs = node.attributes.graphs("graphs");
    const bool branch = node.op == Op::branch;
    Regions::Region r;
    r.kind = branch ? Regions::Region::Kind::branch : Regions::Region::Kind::loop;
    std::vector<uint32_t> in, out;
    for (ValueId v : node.in) in.push_back(number_of(v));
    for (ValueId v : node.out) out.push_back(number_of(v));
    const std::string name = fmt::format("{}.{}", name_, n);
    if (branch) {
      r.condition = in[0];
      in.erase(in.begin());
      in.insert(in.end(), out.begin(), out.end());
      r.calls = {{keep(*graphs[0], name + ".true"), in}, {keep(*graphs[1], name + ".false"), in}};
      return r;
    }
    Graph body = *graphs[1];
    std::vector<uint32_t> next = in;
    for (size_t i = 0; i < out.size(); ++i) {
      const bool in_place = write_in_place(body, i);
      r.carried.push_back({in[i], out[i], in_place ? out[i] : add_value(g_.type(node.out[i]))});
      next[i] = in[i] = out[i];
    }
    if (node.attributes.find("count") != nullptr) {
      r.count = node.attributes.dim("count");
    } else {
      r.condition = add_value({ir::DType::b8, {}});
      in.push_back(r.condition);
      r.calls.push_back({keep(*graphs[0], name + ".condition"), in});
    }
    for (const Regions::Carried& c : r.carried) {
      if (c.next != c.value) next.push_back(c.next);
    }
    r.calls.push_back({keep(std::move(body), name + ".body"), next});
    return r;
  }

  uint32_t keep(Graph graph, std::string name) {
    functions_.push_back({std::move(name), std::move(graph)});
    return static_cast<uint32_t>(functions_.size() - 1);
  }

  std::vector<ir::NamedGraph>& functions_;
  const std::string name_;
  const Graph g_;  // a copy: functions_ grows
  const std::vector<uint32_t> read_;      // per symbol: the output that reads it
  std::vector<uint32_t> level_;           // per node
  std::vector<uint32_t> symbol_level_;    // from which on it is known
  uint32_t last_ = 1, bindings_ = 0;
  struct Result {
    ValueId value;
    std::string name;
    uint32_t number;
  };
  std::vector<Result> results_, copied_;   // copied_: at the end
  std::unordered_map<std::string, uint32_t> state_number_;
  std::unordered_map<ValueId, uint32_t> number_;
  std::vector<std::set<ValueId>> wanted_;  // per level
  Regions out_;
};

}  // namespace

void outline(std::vector<ir::NamedGraph>& functions) {
  for (size_t f = 0; f < functions.size(); ++f) {
    if (is_straight(functions[f].graph)) continue;
    Regions regions = Outliner(functions, f).run();
    functions[f].regions = std::move(regions);
  }
}

}  // namespace ingot::lower
