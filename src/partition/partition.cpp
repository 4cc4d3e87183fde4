#include "partition/partition.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "ir/symbols.h"
#include "ir/written.h"
#include "partition/tuning.h"

namespace ingot::partition {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

namespace {

// "aten.gelu.default" -> "aten.gelu"
std::string_view without_overload(std::string_view target) { return target.substr(0, target.rfind('.')); }
std::string_view without_namespace(std::string_view target) { return target.substr(target.find('.') + 1); }

bool names_operator(std::string_view wanted, std::string_view target, std::string_view node) {
  if (wanted.starts_with("torch.ops.")) wanted.remove_prefix(10);
  if (wanted.ends_with(".default") && wanted == target) return true;
  return wanted == target || wanted == without_overload(target) || wanted == without_namespace(without_overload(target)) || wanted == without_namespace(target) || wanted == node;
}

bool names_module(std::string_view wanted, const ir::Origin& o) {
  if (o.module == wanted || (o.module.starts_with(wanted) && o.module.size() > wanted.size() && o.module[wanted.size()] == '.')) return true;
  for (std::string_view rest = o.classes; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one == wanted || (one.ends_with(wanted) && one.size() > wanted.size() && one[one.size() - wanted.size() - 1] == '.')) return true;
  }
  return false;
}

bool is_one_of(std::string_view name, std::span<const std::string_view> names) { return std::find(names.begin(), names.end(), name) != names.end(); }

// What torch calls LAPACK for, matrix by matrix. Null: not such an operator.
const tuning::Matrices* matrices_of(std::string_view name) {
  constexpr std::string_view dear[] = {"linalg_inv_ex",   "_linalg_solve_ex", "linalg_solve_ex", "_linalg_det", "linalg_det", "det",
                                       "_linalg_slogdet", "linalg_slogdet",   "slogdet",         "logdet",      "linalg_qr"};
  constexpr std::string_view cheap[] = {"linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_solve_triangular", "triangular_solve", "cholesky_solve"};
  return is_one_of(name, dear) ? &tuning::solver : is_one_of(name, cheap) ? &tuning::factor : nullptr;
}

// Torch's overhead of calling the operator, in microseconds, which an engine saves. Views cost no memory traffic.
double saved_by(const Graph& g, const ir::Node& node, std::string_view target, const Machine& machine) {
  constexpr std::string_view views[] = {"view",  "reshape", "transpose", "permute", "unsqueeze",  "squeeze", "expand",  "select",
                                        "slice", "t",       "alias",     "detach",  "contiguous", "to",      "dropout", "flatten"};
  constexpr std::string_view products[] = {"linear", "matmul", "addmm", "bmm", "scaled_dot_product_attention"};
  const std::string_view name = without_namespace(without_overload(target));
  const double dispatch = machine.dispatch * 1e-3;
  if (is_one_of(name, views)) return tuning::view * dispatch;
  if (const tuning::Matrices* of = matrices_of(name)) {
    double matrices = 1;
    const ir::Dims& dims = g.type(node.in[0]).dims;
    for (size_t d = 0; d + 2 < dims.size(); ++d) matrices *= static_cast<double>(dims[d].constant().value_or(1));
    return (of->call + of->matrix * matrices) * dispatch;
  }
  if (name.starts_with("_fft") || name.starts_with("fft_") || name == "stft" || name == "istft") return tuning::transform * dispatch;
  return is_one_of(name, products) ? tuning::product * dispatch : dispatch;
}

// Twice the overhead of calling an engine, in microseconds: a segment must gain more than this.
double cost_of_call(size_t tensors, const Machine& machine) { return 2e-3 * (machine.call + machine.binding * static_cast<double>(tensors)); }

class Partitioner {
 public:
  Partitioner(const Graph& g, const std::vector<Refused>& refused, const Settings& settings) : g_(g), settings_(settings) {
    out_.segment_of.assign(g.nodes.size(), in_torch);
    out_.reason.assign(g.nodes.size(), {});
    here_.assign(g.nodes.size(), false);
    for (NodeId n = 0; n < g.nodes.size(); ++n) here_[n] = g.nodes[n].op == Op::call;
    for (const Refused& r : refused) stay(r.node, r.reason);
    apply_names();
    index();
    find_dependencies();
  }

  Partition run() {
    for (;;) {
      schedule();
      if (whole() || !drop_small()) break;
    }
    out_.whole = whole();
    return std::move(out_);
  }

 private:
  void stay(NodeId n, std::string reason) {
    if (!here_[n]) return;
    here_[n] = false;
    out_.reason[n] = std::move(reason);
  }

  std::string_view target(NodeId n) const { return g_.nodes[n].attributes.string("target"); }
  const ir::Origin* origin(NodeId n) const { return g_.nodes[n].origin == ir::none_id ? nullptr : &g_.origins[g_.nodes[n].origin]; }

  void apply_names() {
    for (const std::string& name : settings_.torch_ops) {
      bool found = false;
      for (NodeId n = 0; n < g_.nodes.size(); ++n) {
        if (g_.nodes[n].op != Op::call || !names_operator(name, target(n), origin(n) ? origin(n)->node : "")) continue;
        found = true;
        stay(n, fmt::format("torch_executed_ops names {}", name));
      }
      if (!found) {
        std::vector<std::string_view> names;
        for (NodeId n = 0; n < g_.nodes.size(); ++n) {
          if (g_.nodes[n].op == Op::call) names.push_back(target(n));
        }
        Error problem(Code::invalid_option, fmt::format("torch_executed_ops names \"{}\", which is no operator or node of this model", name));
        std::string_view near = nearest(name, names);
        throw problem.fix(near.empty() ? "`ingot.explain` lists the model's operators" : fmt::format("did you mean \"{}\"?", near));
      }
    }
    for (const std::string& name : settings_.torch_modules) {
      bool found = false;
      for (NodeId n = 0; n < g_.nodes.size(); ++n) {
        if (g_.nodes[n].op != Op::call || origin(n) == nullptr || !names_module(name, *origin(n))) continue;
        found = true;
        stay(n, fmt::format("torch_executed_modules names {}", name));
      }
      if (!found) {
        throw Error(Code::invalid_option, fmt::format("torch_executed_modules names \"{}\", which is no module or module class of this model", name))
            .fix("give the path of a module (\"encoder.layer.0\") or its class (\"BertLayer\")");
      }
    }
  }

  // The nodes that must run before a node: those whose results it reads, and for each size that it uses the first node that
  // gives it, or whose result is read as this size.
  void find_dependencies() {
    before_.resize(g_.nodes.size());
    std::vector<NodeId> maker(g_.symbols.size(), ir::none_id);
    std::vector<bool> known(g_.symbols.size(), false);
    auto note = [&](ValueId v, NodeId by) {
      for (const ir::Dim& d : g_.type(v).dims) {
        if (auto size = ir::linear_size(d); size && !known[size->symbol]) {
          known[size->symbol] = true;
          maker[size->symbol] = by;
        }
      }
    };
    for (const ir::Input& i : g_.inputs) note(i.value, ir::none_id);
    const std::vector<uint32_t> read = ir::read_symbols(g_);
    for (ir::SymbolId s = 0; s < read.size(); ++s) {
      if (read[s] == ir::none_id || known[s]) continue;
      known[s] = true;
      maker[s] = g_.values[g_.outputs[read[s]].value].producer;
    }
    NodeId last_effect = ir::none_id;
    for (NodeId n = 0; n < g_.nodes.size(); ++n) {
      const Node& node = g_.nodes[n];
      if (node.op != Op::call) continue;
      auto add = [&](NodeId b) {
        if (b != ir::none_id && b != n && g_.nodes[b].op == Op::call) before_[n].push_back(b);
      };
      for (ValueId v : node.in) add(g_.values[v].producer);
      for (ValueId v : node.out) note(v, n);
      for (ir::SymbolId s : ir::used_symbols(g_, node)) add(maker[s]);
      if (!here_[n]) {  // torch's nodes keep their order: random numbers, prints, writes
        add(last_effect);
        last_effect = n;
      }
    }
  }

  // Alternates: runs all ready nodes of torch, then all ready nodes that can run here, which form a segment.
  void schedule() {
    out_.segments.clear();
    std::fill(out_.segment_of.begin(), out_.segment_of.end(), in_torch);
    size_t n = g_.nodes.size();
    std::vector<uint32_t> waits(n, 0);
    std::vector<std::vector<NodeId>> after(n);
    size_t left = 0;
    for (NodeId i = 0; i < n; ++i) {
      if (g_.nodes[i].op != Op::call) continue;
      ++left;
      waits[i] = static_cast<uint32_t>(before_[i].size());
      for (NodeId b : before_[i]) after[b].push_back(i);
    }
    std::set<NodeId> ready[2];  // torch, here; ordered by position, to keep the program's order
    for (NodeId i = 0; i < n; ++i) {
      if (g_.nodes[i].op == Op::call && waits[i] == 0) ready[here_[i]].insert(i);
    }
    turn_.assign(n, 0);
    uint32_t turn = 0;
    for (bool here = false; left > 0; here = !here) {
      Segment segment;
      ++turn;
      while (!ready[here].empty()) {
        NodeId i = *ready[here].begin();
        ready[here].erase(ready[here].begin());
        --left;
        turn_[i] = turn;
        if (here) {
          segment.nodes.push_back(i);
          out_.segment_of[i] = static_cast<uint32_t>(out_.segments.size());
        }
        for (NodeId a : after[i]) {
          if (--waits[a] == 0) ready[here_[a]].insert(a);
        }
      }
      if (segment.nodes.empty()) continue;
      std::sort(segment.nodes.begin(), segment.nodes.end());
      out_.segments.push_back(std::move(segment));
    }
    for (Segment& s : out_.segments) bind(s);
  }

  // Builds the tables that `bind` uses.
  void index() {
    users_ = g_.users();
    is_state_.assign(g_.values.size(), false);
    output_.assign(g_.values.size(), g_.outputs.size());
    carriers_.resize(g_.symbols.size());
    const std::vector<ValueId> written = ir::written_by_outputs(g_);
    for (size_t i = g_.outputs.size(); i-- > 0;) {
      output_[g_.outputs[i].value] = i;
      if (g_.outputs[i].to == ir::Output::To::weight) is_state_[written[i]] = true;
    }
    for (ValueId v = 0; v < g_.values.size(); ++v) {
      if (g_.producer(v).op == Op::weight) continue;
      for (const ir::Dim& d : g_.type(v).dims) {
        auto size = ir::linear_size(d);
        if (size && (carriers_[size->symbol].empty() || carriers_[size->symbol].back() != v)) carriers_[size->symbol].push_back(v);
      }
    }
  }

  void bind(Segment& s) {
    uint32_t index = static_cast<uint32_t>(&s - out_.segments.data());
    auto inside = [&](NodeId n) { return g_.nodes[n].op == Op::call && out_.segment_of[n] == index; };
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
    // A size that is no axis of an input needs another input: the first tensor that has it before the segment runs. Without one, the nodes that use it are refused.
    auto earlier = [&](ValueId v) { return g_.producer(v).op != Op::call || turn_[g_.values[v].producer] < turn_[s.nodes.front()]; };
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
      const bool in_torch_too = std::any_of(users_[v].begin(), users_[v].end(), [&](NodeId n) { return g_.nodes[n].op == Op::call && !here_[n]; });
      s.orders.push_back(in_torch_too ? g_.values[v].order : std::vector<int64_t>());
    }
    s.gain = 0;
    for (NodeId n : s.nodes) s.gain += saved_by(g_, g_.nodes[n], target(n), settings_.machine);
    s.cost = cost_of_call(s.inputs.size() + s.outputs.size(), settings_.machine);
  }

  bool whole() const {
    if (out_.segments.size() > 1) return false;
    for (NodeId n = 0; n < g_.nodes.size(); ++n) {
      if (g_.nodes[n].op == Op::call && !here_[n]) return false;
      if (g_.nodes[n].op == Op::input && g_.nodes[n].attributes.find("torch_only") != nullptr) return false;
    }
    return true;
  }

  bool drop_small() {
    bool dropped = false;
    auto least = static_cast<size_t>(settings_.min_block_size);
    for (const Segment& s : out_.segments) {
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
      for (NodeId n : s.nodes) stay(n, reason);
      dropped = true;
    }
    if (dropped) {
      before_.clear();
      find_dependencies();
    }
    return dropped;
  }

  const Graph& g_;
  const Settings& settings_;
  Partition out_;
  std::vector<bool> here_;  // per node: can run in an engine
  std::vector<std::vector<NodeId>> before_;
  std::vector<std::vector<NodeId>> users_;           // per value
  std::vector<bool> is_state_;                       // per value: a buffer that the model writes
  std::vector<size_t> output_;                       // per value: the index of the first output with this value, or the number of outputs
  std::vector<uint32_t> turn_;                       // per node: after which others `schedule` runs it
  std::vector<std::vector<ValueId>> carriers_;       // per size: values that have it as an axis, except weights
};

}  // namespace

Partition partition(const Graph& captured, const std::vector<Refused>& refused, const Settings& settings) { return Partitioner(captured, refused, settings).run(); }

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
