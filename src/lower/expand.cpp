// Rows become canonical nodes. What a row makes is compared with what torch recorded.
#include <algorithm>

#include "base/error.h"
#include "lower/lower.h"
#include "ops/row.h"

namespace ingot::lower {

using namespace ir;

namespace {

std::string dims_text(const Graph& g, const Dims& dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i) s += (i ? ", " : "") + dims[i].text(g.symbols);
  return s + "]";
}

class Expander {
 public:
  explicit Expander(const Graph& from) : from_(from), map_(from.values.size(), none_id) {}

  Graph run() {
    out_.symbols = from_.symbols;
    out_.origins = from_.origins;
    out_.checks = from_.checks;
    for (const Input& i : from_.inputs) map_[i.value] = out_.add_input(i.name, from_.type(i.value));
    for (Weight w : from_.weights) {
      ValueId v = w.value;
      map_[v] = out_.add_weight(std::move(w), from_.type(v));
    }
    for (const Node& node : from_.nodes) {
      if (node.op == Op::row) expand(node);
    }
    for (const Output& o : from_.outputs) out_.outputs.push_back({map_[o.value], o.name, o.order});
    out_.remove_unused();
    return std::move(out_);
  }

 private:
  void expand(const Node& node) {
    const std::string& target = node.attributes.string("target");
    const ops::Operator* op = ops::find(target);
    if (op == nullptr) fail(Code::unsupported, "operator {} has no row", target);
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(map_[v]);
    out_.current_origin = node.origin;
    out_.current_group = ++group_;
    ops::Results results;
    try {
      results = ops::expand(out_, *op, node.attributes, in);
    } catch (Error& e) {
      if (node.origin != none_id && e.origin.empty()) e.at(from_.origins[node.origin].text());
      if (e.message.find(target) == std::string::npos) e.message = target + ": " + e.message;
      throw;
    }
    out_.current_origin = none_id;
    out_.current_group = 0;
    // A row may have results that nobody recorded (unused ones of a tuple).
    if (results.size() < node.out.size()) fail(Code::internal, "{} gives {} results, torch recorded {}", target, results.size(), node.out.size());
    for (size_t i = 0; i < node.out.size(); ++i) check(node, target, results[i], node.out[i]);
  }

  void check(const Node& node, const std::string& target, const Handle& result, ValueId recorded) {
    const Type &ours = result.type(), &theirs = from_.type(recorded);
    bool fits = ours.dtype == theirs.dtype && ours.dims.size() == theirs.dims.size();
    for (size_t d = 0; fits && d < ours.dims.size(); ++d) fits = known_equal(ours.dims[d], theirs.dims[d], out_.symbols) != Truth::no;
    if (!fits) {
      Error problem(Code::internal, fmt::format("{} gives {}{}, but torch recorded {}{}", target, name_of(ours.dtype), dims_text(out_, ours.dims),
                                                name_of(theirs.dtype), dims_text(out_, theirs.dims)));
      if (node.origin != none_id) problem.at(from_.origins[node.origin].text());
      throw problem;
    }
    for (size_t d = 0; d < ours.dims.size(); ++d) {
      if (known_equal(ours.dims[d], theirs.dims[d], out_.symbols) == Truth::unknown) {
        out_.checks.push_back({ours.dims[d], theirs.dims[d], Check::equal, node.origin, "the size of " + target + "'s result is what torch recorded"});
      }
    }
    map_[recorded] = result.id();
    if (out_.values[result.id()].name.empty()) out_.values[result.id()].name = from_.values[recorded].name;
  }

  const Graph& from_;
  Graph out_;
  std::vector<ValueId> map_;
  uint32_t group_ = 0;
};

}  // namespace

std::vector<Missing> missing_rows(const Graph& captured) {
  std::vector<Missing> out;
  for (const Node& node : captured.nodes) {
    if (node.op != Op::row) continue;
    const std::string& target = node.attributes.string("target");
    if (ops::find(target) != nullptr) continue;
    out.push_back({target, "no row in the operator table", node.origin == none_id ? "" : captured.origins[node.origin].text()});
  }
  return out;
}

Graph expand_rows(const Graph& captured) {
  std::vector<Missing> missing = missing_rows(captured);
  if (!missing.empty()) {
    // Each operator once, with every line that uses it.
    std::string text = "operators without an engine:";
    std::vector<std::string> seen;
    for (const Missing& m : missing) {
      if (std::find(seen.begin(), seen.end(), m.target) != seen.end()) continue;
      seen.push_back(m.target);
      text += "\n  " + m.target;
      std::vector<std::string> places;
      for (const Missing& other : missing) {
        if (other.target == m.target && std::find(places.begin(), places.end(), other.origin) == places.end()) places.push_back(other.origin);
      }
      for (const std::string& place : places) {
        if (!place.empty()) text += "\n    " + place;
      }
    }
    Error problem(Code::unsupported, text);
    throw problem.fix("write these operations with others, or leave this part of the model to PyTorch");
  }
  return Expander(captured).run();
}

}  // namespace ingot::lower
