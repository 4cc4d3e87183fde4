// The rules every stage may rely on, checked after every pass and on every graph read from a file.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/order.h"
#include "ir/graph.h"
#include "ir/symbols.h"
#include "ir/written.h"

namespace ingot::ir {

namespace {

class Verifier {
 public:
  Verifier(const Graph& g, Level level) : g_(g), level_(level), made_(g.values.size(), false) {}

  void run() {
    symbols();
    for (at_ = 0; at_ < g_.nodes.size(); ++at_) node(g_.nodes[at_]);
    at_ = none;
    inputs();
    weights();
    const std::vector<ValueId> written = written_by_outputs(g_);
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const Output& o = g_.outputs[i];
      if (o.value >= made_.size() || !made_[o.value]) bad("output \"{}\" does not exist", o.name);
      order(o);
      if (o.to == Output::To::size) read(o);
      if (ValueId leaf = written[i]; leaf != none_id && !can_be_written(g_.type(leaf), g_.type(o.value))) bad("what is written to \"{}\" has another type", o.name);
    }
    for (const Check& c : g_.checks) {
      known(c.left);
      known(c.right);
      if (c.origin != none_id && c.origin >= g_.origins.size()) bad("the origin of a check does not exist");
    }
  }

 private:
  template <class... A>
  [[noreturn]] void bad(fmt::format_string<A...> text, A&&... arguments) {
    std::string what = fmt::format(text, std::forward<A>(arguments)...);
    if (at_ == none) fail(Code::internal, "graph is broken: {}", what);
    const Node& node = g_.nodes[at_];
    Error e(Code::internal, fmt::format("graph is broken at node {} ({}): {}", at_, name_of(node.op), what));
    if (node.origin < g_.origins.size()) e.at(g_.origins[node.origin].text());
    throw e;
  }

  // Sizes that torch recorded as different symbols may still be equal; where rows are written out, that becomes a check.
  bool can_be_written(const Type& memory, const Type& value) const {
    if (level_ == Level::canonical) return memory == value;
    if (memory.dtype != value.dtype || memory.rank() != value.rank()) return false;
    for (size_t i = 0; i < memory.dims.size(); ++i) {
      if (known_equal(memory.dims[i], value.dims[i], g_.symbols) == Truth::no) return false;
    }
    return true;
  }

  void read(const Output& o) {
    const Type& t = g_.type(o.value);
    const bool flag = level_ == Level::captured && t.dtype == DType::b8;
    if (!flag && (t.dtype != DType::i64 || t.rank() != 0)) bad("size \"{}\" is read from {} of rank {}", o.name, name_of(t.dtype), t.rank());
    if (std::none_of(g_.symbols.begin(), g_.symbols.end(), [&](const Symbol& s) { return s.name == o.name; })) bad("size \"{}\" is read, but there is none of that name", o.name);
    if (!read_.insert(o.name).second) bad("size \"{}\" is read twice", o.name);
  }

  void symbols() {
    std::set<std::string_view> names;
    for (const Symbol& s : g_.symbols) {
      if (s.name.empty()) bad("a size has no name");
      if (!names.insert(s.name).second) bad("two sizes are named \"{}\"", s.name);
      if (s.min < 0 || s.min > s.opt || s.opt > s.max) bad("size \"{}\" has the range {}..{}..{}", s.name, s.min, s.opt, s.max);
    }
  }

  void known(const Dim& d) {
    if (d.is_constant()) return;
    ids_.clear();
    d.collect_symbols(ids_);
    for (SymbolId s : ids_) {
      if (s >= g_.symbols.size()) bad("size {} of {} does not exist", s, g_.symbols.size());
    }
  }

  void type(const Type& t) {
    if (level_ == Level::canonical && !is_canonical(t.dtype)) bad("its result is {}", name_of(t.dtype));
    for (size_t i = 0; i < t.dims.size(); ++i) {
      if (known_less(t.dims[i], 0, g_.symbols) == Truth::yes) bad("axis {} of its result has the size {}", i, t.dims[i].text(g_.symbols));
    }
  }

  void node(const Node& node) {
    for (ValueId v : node.in) {
      if (v >= made_.size()) bad("operand {} does not exist", v);
      if (!made_[v]) bad("operand {} is used before it is made", v);
    }
    for (ValueId v : node.out) {
      if (v >= made_.size()) bad("result {} does not exist", v);
    }
    visit_sizes(g_, node, [&](const Dim& d) { known(d); });
    for (ValueId v : node.out) {
      if (made_[v]) bad("value {} is made twice", v);
      if (g_.values[v].producer != at_) bad("value {} names another producer", v);
      made_[v] = true;
      type(g_.type(v));
    }
    if (node.origin != none_id && node.origin >= g_.origins.size()) bad("its origin does not exist");
    if (is_leaf(node.op)) {
      if (!node.in.empty() || node.out.size() != 1) bad("a leaf has no operands and one result");
      leaves_ += node.op == Op::input;
      weights_ += node.op == Op::weight;
    } else if (level_ == Level::captured) {
      if (node.op != Op::call) bad("a captured graph holds rows only");
      const Attribute* target = node.attributes.find("target");
      if (target == nullptr || !std::holds_alternative<std::string>(target->value)) bad("a row without a target");
    } else {
      if (node.op == Op::call) bad("an ATen row in a canonical graph");
      results(node);
    }
  }

  // What is recorded of the results agrees with what follows from the operands.
  void results(const Node& node) {
    std::vector<Type> types;
    try {
      types = infer(g_, node.op, node.in, node.attributes);
    } catch (const Error& e) {
      bad("{}", e.message);
    }
    if (types.size() != node.out.size()) bad("it has {} results, not {}", node.out.size(), types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      const Type& recorded = g_.type(node.out[i]);
      if (types[i].dtype != recorded.dtype) bad("its result is {}, recorded as {}", name_of(types[i].dtype), name_of(recorded.dtype));
      if (types[i].dims.size() != recorded.dims.size()) bad("its result has rank {}, recorded as {}", types[i].dims.size(), recorded.dims.size());
      for (size_t d = 0; d < recorded.dims.size(); ++d) {
        if (known_equal(types[i].dims[d], recorded.dims[d], g_.symbols) == Truth::no) {
          bad("axis {} of its result has size {}, recorded as {}", d, types[i].dims[d].text(g_.symbols), recorded.dims[d].text(g_.symbols));
        }
      }
    }
  }

  void inputs() {
    std::set<ValueId> seen;
    for (const Input& input : g_.inputs) {
      if (input.value >= made_.size() || !made_[input.value]) bad("input \"{}\" does not exist", input.name);
      if (g_.producer(input.value).op != Op::input) bad("input \"{}\" is made by a node", input.name);
      if (!seen.insert(input.value).second) bad("input \"{}\" is listed twice", input.name);
      if (!input.order.empty() && !is_permutation(input.order, g_.type(input.value).dims.size())) bad("the order of input \"{}\" is not a permutation of its axes", input.name);
    }
    if (seen.size() != leaves_) bad("{} inputs are listed, {} exist", seen.size(), leaves_);
  }

  void weights() {
    std::set<ValueId> seen;
    for (const Weight& w : g_.weights) {
      if (w.value >= made_.size() || !made_[w.value]) bad("weight \"{}\" does not exist", w.name);
      if (g_.producer(w.value).op != Op::weight) bad("weight \"{}\" is made by a node", w.name);
      if (!seen.insert(w.value).second) bad("weight \"{}\" is listed twice", w.name);
      if (w.value != *seen.rbegin()) bad("weight \"{}\" is not listed in the order of the nodes", w.name);
      if (!w.order.empty() && !is_permutation(w.order, g_.type(w.value).dims.size())) bad("the order of weight \"{}\" is not a permutation of its axes", w.name);
    }
    if (seen.size() != weights_) bad("{} weights are listed, {} exist", seen.size(), weights_);
  }

  // The recorded order of an output's axes is a permutation.
  void order(const Output& o) {
    if (!o.order.empty() && !is_permutation(o.order, g_.type(o.value).dims.size())) bad("the order of output \"{}\" is not a permutation of its axes", o.name);
  }

  static constexpr size_t none = SIZE_MAX;
  const Graph& g_;
  Level level_;
  size_t at_ = none;  // the node at hand
  std::vector<bool> made_;
  std::vector<SymbolId> ids_;
  std::set<std::string_view> read_;
  size_t leaves_ = 0, weights_ = 0;
};

}  // namespace

void verify(const Graph& g, Level level) { Verifier(g, level).run(); }

}  // namespace ingot::ir
