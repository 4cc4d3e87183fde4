// Rows -> canonical nodes, each result checked against what torch recorded.
#include <algorithm>

#include "base/error.h"
#include "lower/lower.h"
#include "ops/row.h"

namespace ingot::lower {

namespace {

using ir::Graph;
using ir::Node;
using ir::Op;
using ir::ValueId;

std::string show(const ir::Type& t, const Graph& g) {
  std::string s = std::string(name_of(t.dtype)) + "[";
  for (size_t i = 0; i < t.dims.size(); ++i) s += (i ? ", " : "") + t.dims[i].text(g.symbols);
  return s + "]";
}

// "aten.add_.Tensor" -> "aten.add.Tensor"; empty when the name is not that of an in-place overload.
std::string functional_name(const std::string& target) {
  size_t first = target.find('.'), second = target.find('.', first + 1);
  if (first == std::string::npos || second == std::string::npos || second < first + 3 || target[second - 1] != '_' || target[first + 1] == '_') return {};
  return target.substr(0, second - 1) + target.substr(second);
}

class Expander {
 public:
  explicit Expander(const Graph& from) : from_(from) {}

  Graph run() {
    to_.symbols = from_.symbols;
    to_.origins = from_.origins;
    to_.checks = from_.checks;
    current_.assign(from_.values.size(), ir::none_id);
    for (const Node& node : from_.nodes) {
      if (node.op == Op::input) {
        current_[node.out[0]] = to_.add_input(from_.values[node.out[0]].name, from_.type(node.out[0]));
      } else if (node.op == Op::weight) {
        const ir::Weight* w = from_.weight_of(node.out[0]);
        if (w == nullptr) fail(Code::internal, "weight {} is not listed", from_.values[node.out[0]].name);
        current_[node.out[0]] = to_.add_weight(*w, from_.type(node.out[0]));
      } else {
        expand(node);
      }
    }
    for (const ir::Output& o : from_.outputs) to_.outputs.push_back({current_[o.value], o.name, o.order});
    to_.current_origin = ir::none_id;
    to_.current_group = 0;
    return std::move(to_);
  }

  std::vector<Missing> missing;

 private:
  std::string where(const Node& node) const { return node.origin == ir::none_id ? "" : from_.origins[node.origin].text(); }

  void expand(const Node& node) {
    std::string target = node.attributes.string("target");
    to_.current_origin = node.origin;
    ++to_.current_group;
    ops::Results results;
    try {
      const ops::Operator* op = ops::find(target);
      bool writes = false;
      if (op == nullptr) {
        std::string functional = functional_name(target);
        writes = !functional.empty() && !node.in.empty();
        if (writes) op = ops::find(functional);
      }
      if (op == nullptr) {
        refuse(node, target, "there is no row for it in the operator table");
        return;
      }
      ir::Attributes arguments;
      for (const auto& [name, value] : node.attributes) {
        if (name != "target") arguments.set(name, value);
      }
      std::vector<ValueId> in;
      for (ValueId v : node.in) in.push_back(current_[v]);
      results = ops::expand(to_, *op, arguments, in);
      if (writes) write(node, results);
    } catch (Error& e) {
      if (e.code == Code::unsupported) {
        refuse(node, target, e.message);
        return;
      }
      e.message = fmt::format("{} ({}): {}", node_name(node), target, e.message);
      if (e.origin.empty()) e.origin = where(node);
      throw;
    }
    if (results.size() < node.out.size()) {
      throw Error(Code::internal, fmt::format("{} ({}) has {} results where torch recorded {}", node_name(node), target, results.size(), node.out.size()), where(node));
    }
    for (size_t i = 0; i < node.out.size(); ++i) {
      check(node, target, from_.type(node.out[i]), results[i].type());
      ValueId v = results[i].id();
      current_[node.out[i]] = v;
      if (to_.values[v].name.empty()) to_.values[v].name = from_.values[node.out[i]].name;
    }
  }

  std::string node_name(const Node& node) const {
    if (!node.out.empty() && !from_.values[node.out[0]].name.empty()) return from_.values[node.out[0]].name;
    return node.origin == ir::none_id ? "a node" : from_.origins[node.origin].node;
  }

  void refuse(const Node& node, const std::string& target, const std::string& reason) {
    missing.push_back({target, reason, where(node)});
    // The walk goes on, so that all missing operators are told at once: the results stay a row.
    std::vector<ir::Type> types;
    for (ValueId v : node.out) types.push_back(from_.type(v));
    ir::NodeId id = to_.add_node(Op::row, {}, node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) current_[node.out[i]] = to_.nodes[id].out[i];
  }

  // An in-place overload: whoever reads the tensor from here on reads the new value. A tensor that shares memory with
  // another one (a view, or the base of views) would need both to change.
  void write(const Node& node, ops::Results& results) {
    ValueId self = node.in[0];
    const std::string& target = node.attributes.string("target");
    bool harmless = target.starts_with("aten.detach_.");
    if (!harmless) {
      const Node& made = from_.nodes[from_.values[self].producer];
      if (made.op != Op::row) {
        throw Error(Code::unsupported, fmt::format("it writes to the {} \"{}\" in place", made.op == Op::input ? "input" : "weight", from_.values[self].name));
      }
      if (shares_memory(self)) throw Error(Code::unsupported, "it writes in place to a tensor that shares memory with another one");
    }
    if (results.empty()) return;
    ir::Handle value = ir::cast(results[0], from_.type(self).dtype);
    if (!(value.dims() == from_.type(self).dims)) value = ir::expand(value, from_.type(self).dims);
    results[0] = value;
    current_[self] = value.id();
  }

  static bool makes_view(const std::string& target) {
    for (std::string_view name : {"view", "reshape", "transpose", "permute", "slice", "select", "expand", "unsqueeze", "squeeze", "t", "alias", "detach", "split", "chunk",
                                  "unbind", "narrow", "flatten", "unflatten", "contiguous", "to", "diagonal", "movedim", "expand_as", "view_as", "split_with_sizes",
                                  "tensor_split", "swapaxes", "mT", "unfold", "real", "imag", "as_strided", "type_as", "dropout"}) {
      if (target.starts_with("aten." + std::string(name) + ".")) return true;
    }
    return false;
  }

  bool shares_memory(ValueId v) const {
    if (makes_view(from_.nodes[from_.values[v].producer].attributes.string("target"))) return true;
    for (const Node& n : from_.nodes) {
      if (n.op == Op::row && !n.in.empty() && n.in[0] == v && makes_view(n.attributes.string("target"))) return true;
    }
    return false;
  }

  void check(const Node& node, const std::string& target, const ir::Type& recorded, const ir::Type& inferred) {
    auto mismatch = [&]() -> void {
      throw Error(Code::internal,
                  fmt::format("{} ({}): torch recorded {}, the operator table infers {}", node_name(node), target, show(recorded, to_), show(inferred, to_)), where(node),
                  "This is a fault of ingot's operator table; please report it.");
    };
    if (recorded.dtype != inferred.dtype || recorded.dims.size() != inferred.dims.size()) mismatch();
    for (size_t i = 0; i < recorded.dims.size(); ++i) {
      switch (known_equal(recorded.dims[i], inferred.dims[i], to_.symbols)) {
        case ir::Truth::yes: break;
        case ir::Truth::no: mismatch(); break;
        case ir::Truth::unknown:
          to_.checks.push_back({inferred.dims[i], recorded.dims[i], ir::Check::equal, node.origin, fmt::format("axis {} of {} has the size recorded at capture", i, node_name(node))});
      }
    }
  }

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> current_;  // of a captured value: its newest version in the canonical graph
};

}  // namespace

std::vector<Missing> missing_rows(const Graph& captured) {
  Expander expander(captured);
  expander.run();
  return std::move(expander.missing);
}

Graph expand_rows(const Graph& captured) {
  Expander expander(captured);
  Graph out = expander.run();
  if (expander.missing.empty()) {
    out.remove_unused();
    return out;
  }
  // One line for an operator and reason, with the first places where it stands.
  std::string text;
  std::vector<std::string> seen;
  for (const Missing& m : expander.missing) {
    std::string key = m.target + ": " + m.reason;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    text += "\n  " + key;
    size_t places = 0, more = 0;
    std::vector<std::string> origins;
    for (const Missing& other : expander.missing) {
      if (other.target != m.target || other.reason != m.reason || other.origin.empty()) continue;
      if (std::find(origins.begin(), origins.end(), other.origin) != origins.end()) continue;
      origins.push_back(other.origin);
      if (places < 3) {
        text += "\n    at " + other.origin;
        ++places;
      } else {
        ++more;
      }
    }
    if (more > 0) text += fmt::format("\n    and {} more places", more);
  }
  throw Error(Code::unsupported, fmt::format("{} operator{} of the model {} not supported:{}", seen.size(), seen.size() == 1 ? "" : "s", seen.size() == 1 ? "is" : "are", text),
              expander.missing[0].origin, "Replace them in the model, or leave this part to PyTorch.");
}

}  // namespace ingot::lower
