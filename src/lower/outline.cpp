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

// Regions have levels. At level 0 nothing has run; a straight region of level n runs after everything of lower levels, then branches and loops of
// level n, then sizes are read from what there is.
class Levels {
 public:
  // `read`: per symbol, the output that reads it.
  Levels(const Graph& g, const std::vector<uint32_t>& read) : of_(g.nodes.size(), 0), of_symbol_(g.symbols.size(), 0), g_(g) {
    constexpr uint32_t unknown = UINT32_MAX / 2;
    for (size_t s = 0; s < read.size(); ++s) {
      if (read[s] != none_id) of_symbol_[s] = unknown;
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
        const Node& node = g_.nodes[n];
        if (is_leaf(node.op)) continue;
        uint32_t level = 1;
        for (ValueId v : node.in) level = std::max(level, available(v));
        for (ir::SymbolId s : ir::used_symbols(g_, node)) level = std::max(level, of_symbol_[s]);
        of_[n] = std::min(level, unknown);
      }
      for (size_t s = 0; s < read.size(); ++s) {
        if (read[s] == none_id) continue;
        const ir::NodeId maker = g_.values[g_.outputs[read[s]].value].producer;
        // Inputs are in memory before anything runs. A weight is loaded by the first region.
        const uint32_t made = g_.nodes[maker].op == Op::input ? 0 : std::max<uint32_t>(of_[maker], 1);
        const uint32_t level = std::min(made + 1, unknown);
        changed = changed || level != of_symbol_[s];
        of_symbol_[s] = level;
      }
    }
    for (size_t s = 0; s < read.size(); ++s) {
      if (of_symbol_[s] >= unknown) fail(Code::internal, "size {} is read from what depends on it", g_.symbols[s].name);
    }
  }

  uint32_t of(ir::NodeId n) const { return of_[n]; }
  // From which on the size is known.
  uint32_t of_symbol(ir::SymbolId s) const { return of_symbol_[s]; }
  uint32_t of(const ir::Dim& d) const {
    std::vector<ir::SymbolId> symbols;
    d.collect_symbols(symbols);
    uint32_t level = 1;
    for (ir::SymbolId s : symbols) level = std::max(level, of_symbol_[s]);
    return level;
  }
  uint32_t last() const {
    uint32_t last = 1;
    for (uint32_t level : of_) last = std::max(last, level);
    for (uint32_t level : of_symbol_) last = std::max(last, level);
    for (size_t n = 0; n < g_.nodes.size(); ++n) {
      if (is_control(g_.nodes[n].op)) last = std::max(last, of_[n] + 1);
    }
    return last;
  }

 private:
  uint32_t available(ValueId v) const {
    const ir::NodeId n = g_.values[v].producer;
    return of_[n] + (is_control(g_.nodes[n].op) ? 1 : 0);
  }

  std::vector<uint32_t> of_;         // per node
  std::vector<uint32_t> of_symbol_;
  const Graph& g_;
};

// The values of a function that regions pass on, and their numbers: first those of its inputs, results and states.
class Numbers {
 public:
  struct Result {
    ValueId value;
    std::string name;
    uint32_t number;
  };

  explicit Numbers(const Graph& g) : g_(g) {
    for (const ir::Input& i : g.inputs) of_[i.value] = bindings_++;
    for (const Output& o : g.outputs) {
      if (o.to == Output::To::caller) results_.push_back({o.value, o.name, bindings_++});
    }
    for (const Output& o : g.outputs) {
      if (o.to == Output::To::weight) of_state_[o.name] = bindings_++;
    }
  }

  const std::vector<Result>& results() const { return results_; }
  uint32_t of_state(const std::string& name) const { return of_state_.at(name); }
  uint32_t of(ValueId v) {
    auto [found, made] = of_.try_emplace(v, 0);
    if (made) found->second = add(g_.type(v));
    return found->second;
  }
  // The region that computes v writes this result.
  void set(ValueId v, uint32_t number) { of_[v] = number; }
  // A value of no node.
  uint32_t add(const ir::Type& type) {
    values.push_back(type);
    return bindings_ + static_cast<uint32_t>(values.size() - 1);
  }
  // For people; inputs of the model keep their names, by which they are written.
  std::string name_of(uint32_t number) const {
    for (const Result& r : results_) {
      if (r.number == number) return r.name;
    }
    return fmt::format(".{}", number);
  }

  std::vector<ir::Type> values;  // of the regions alone

 private:
  const Graph& g_;
  std::vector<Result> results_;
  std::unordered_map<std::string, uint32_t> of_state_;
  std::unordered_map<ValueId, uint32_t> of_;
  uint32_t bindings_ = 0;
};

class Outliner {
 public:
  Outliner(std::vector<ir::NamedGraph>& functions, size_t function)
      : functions_(functions),
        name_(functions[function].name),
        g_(functions[function].graph),
        read_(ir::read_symbols(g_)),
        levels_(g_, read_),
        last_(levels_.last()),
        numbers_(g_) {}

  Regions run() {
    Regions out;
    demand();
    // From the last to the first: what a region reads is asked of those before it.
    std::vector<std::vector<Regions::Region>> levels(last_ + 1);
    for (uint32_t level = last_; level > 0; --level) {
      if (std::optional<Regions::Call> call = straight(level)) {
        levels[level].emplace_back().calls.push_back(std::move(*call));
      }
    }
    for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
      if (is_control(g_.nodes[n].op)) levels[levels_.of(n)].push_back(control(n));
    }
    for (ir::SymbolId s = 0; s < read_.size(); ++s) {
      if (read_[s] == none_id) continue;
      const uint32_t at = levels_.of_symbol(s) - 1;
      if (levels[at].empty()) levels[at].emplace_back();
      const ValueId v = g_.outputs[read_[s]].value;
      levels[at].back().reads.push_back({numbers_.of(v), s, g_.producer(v).origin});
    }
    for (auto& level : levels) {
      for (Regions::Region& r : level) out.list.push_back(std::move(r));
    }
    out.values = std::move(numbers_.values);
    return out;
  }

 private:
  // ---- what each straight region has to give

  // A value that a region computes again rather than reading it from memory.
  bool is_free(const Node& node) const { return is_generated(node.op) || is_view(node.op); }
  // `v` in memory after level `level`: computed by the region of its own, or by the one at `level` when no region stores it.
  void want(ValueId v, uint32_t level) {
    const Node& node = g_.producer(v);
    if (node.op == Op::input || is_control(node.op)) return;
    const uint32_t at = is_free(node) || node.op == Op::weight ? std::max<uint32_t>(level, 1) : levels_.of(g_.values[v].producer);
    wanted_[at].insert(v);
  }

  void demand() {
    wanted_.resize(last_ + 1);
    std::set<ValueId> once;
    for (const Numbers::Result& result : numbers_.results()) {
      const ValueId v = result.value;
      const Node& node = g_.producer(v);
      // A region or branch writes it where the caller wants it. All others are copied there at the end.
      const bool direct = !is_leaf(node.op) && !is_free(node) && node.op != Op::loop && once.insert(v).second;
      if (direct) {
        numbers_.set(v, result.number);
        want(v, last_);
      } else {
        copied_.push_back(result);
      }
    }
    for (ir::NodeId n = 0; n < g_.nodes.size(); ++n) {
      if (!is_control(g_.nodes[n].op)) continue;
      for (ValueId v : g_.nodes[n].in) want(v, levels_.of(n));
    }
    for (size_t s = 0; s < read_.size(); ++s) {
      if (read_[s] != none_id) want(g_.outputs[read_[s]].value, levels_.of_symbol(s) - 1);
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
        call.values.push_back(numbers_.of(v));
        return r.add_input(i.name, g_.type(v), i.order);
      }
      if (!is_control(node.op) && (levels_.of(g_.values[v].producer) == level || is_free(node))) return none_id;
      want(v, level);
      call.values.push_back(numbers_.of(v));
      return r.add_input(numbers_.name_of(numbers_.of(v)), g_.type(v));
    };
    auto output_of = [&](ValueId wanted) {
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
      r.outputs.push_back({output_of(v), numbers_.name_of(numbers_.of(v)), {}});
      results.push_back(numbers_.of(v));
    }
    if (level == last_) {
      for (const Numbers::Result& result : copied_) {
        r.outputs.push_back({output_of(result.value), result.name, {}});
        results.push_back(result.number);
      }
    }
    for (const Output& o : g_.outputs) {
      if (o.to != Output::To::input && o.to != Output::To::weight) continue;
      const ValueId memory = g_.written_by(o);
      // All is written at the end. A state that is only read here is one as well.
      if (level == last_ ? false : o.to == Output::To::input || !have.contains(memory)) continue;
      r.outputs.push_back({output_of(level == last_ ? o.value : memory), o.name, {}, o.to});
      output_of(memory);
      if (o.to == Output::To::weight) states.push_back(numbers_.of_state(o.name));
    }
    for (const ir::Check& c : g_.checks) {
      if (std::max(levels_.of(c.left), levels_.of(c.right)) != level) continue;
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
    for (ValueId v : node.in) in.push_back(numbers_.of(v));
    for (ValueId v : node.out) out.push_back(numbers_.of(v));
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
      r.carried.push_back({in[i], out[i], in_place ? out[i] : numbers_.add(g_.type(node.out[i]))});
      next[i] = in[i] = out[i];
    }
    if (node.attributes.find("count") != nullptr) {
      r.count = node.attributes.dim("count");
    } else {
      r.condition = numbers_.add({ir::DType::b8, {}});
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
  const Levels levels_;
  const uint32_t last_;                    // level
  Numbers numbers_;
  std::vector<Numbers::Result> copied_;    // at the end
  std::vector<std::set<ValueId>> wanted_;  // per level
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
