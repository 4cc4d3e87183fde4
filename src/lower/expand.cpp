// Calls -> canonical nodes, each result checked against what torch recorded.
#include <algorithm>

#include "base/error.h"
#include "ir/symbols.h"
#include "lower/external.h"
#include "lower/hold_as_signed.h"
#include "lower/lower.h"
#include "lower/versions.h"
#include "ops/complex.h"
#include "ops/operator.h"

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

// Whether torch's random generator gives the results.
bool draws(std::string_view target) {
  constexpr std::string_view names =
      " rand rand_like randn randn_like randint randint_like randperm bernoulli multinomial normal poisson binomial uniform random geometric cauchy exponential log_normal "
      "dropout native_dropout alpha_dropout feature_dropout feature_alpha_dropout rrelu rrelu_with_noise ";
  if (!target.starts_with("aten.")) return false;
  std::string_view name = target.substr(5, target.find('.', 5) - 5);
  if (name.ends_with('_')) name.remove_suffix(1);
  return names.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

// Why an operator without a definition is refused. Python has torch write composites out; a file read without torch may still hold some.
std::string lacking(std::string_view target, bool complex) {
  if (complex) return "the operator table has no definition of it for complex numbers";
  const auto all = ops::absent();
  const bool composite = std::any_of(all.begin(), all.end(), [&](const ops::Absent& op) { return target == op.target && std::string_view(op.group) == "composite"; });
  return fmt::format("the operator table has no definition of it{}", composite ? "; before the program is saved, program.run_decompositions() writes it out of others" : "");
}

class Expander {
 public:
  Expander(const Graph& from, SizesFromData data, std::vector<bool> known_sizes = {})
      : from_(from), data_(data), values_(from, to_, [this](const Node& n) { return again(n); }), read_(from.values.size(), false), known_sizes_(std::move(known_sizes)) {
    known_sizes_.resize(from.symbols.size(), false);
    if (data == SizesFromData::allowed) {
      const std::vector<uint32_t> reads = ir::read_symbols(from);
      for (size_t s = 0; s < reads.size(); ++s) known_sizes_[s] = known_sizes_[s] || reads[s] != ir::none_id;
    }
    for (const ir::Input& input : from.inputs) know(input.value);
    for (const Node& n : from.nodes) {
      for (ValueId v : n.in) read_[v] = true;
    }
    for (const ir::Output& o : from.outputs) read_[o.value] = true;
  }

  Graph run() {
    to_.symbols = from_.symbols;
    to_.origins = from_.origins;
    to_.checks = from_.checks;
    for (ir::NodeId id = 0; id < from_.nodes.size(); ++id) {
      const Node& node = from_.nodes[id];
      if (node.op == Op::input) {
        values_.define(node.out[0], input(node.out[0]));
      } else if (node.op == Op::weight) {
        const ir::Weight* w = from_.weight_of(node.out[0]);
        if (w == nullptr) fail(Code::internal, "weight {} is not listed", from_.values[node.out[0]].name);
        ir::Weight lies = *w;
        lies.order = in_memory(from_.type(node.out[0]), w->order);
        values_.define(node.out[0], turned_back(to_.add_weight(lies, as_it_lies(from_.type(node.out[0]), w->order)), lies.order, from_.type(node.out[0])));
      } else {
        if (node.op == Op::call && (is_unread_draw(node) || refuse_early(id))) continue;
        expand(id);
      }
    }
    auto give = [&](ir::Output o) {
      o.order = in_memory(to_.type(o.value), std::move(o.order));
      if (is_complex(to_.type(o.value).dtype)) o.value = ops::interleaved(ir::Handle(&to_, o.value)).id();
      if (o.to == ir::Output::To::size) o.value = ir::reshape(ir::cast(ir::Handle(&to_, o.value), ir::DType::i64), {}).id();
      if (o.to == ir::Output::To::input) o.value = as_it_lies(o.name, o.value);
      o.value = fitting(o);
      to_.outputs.push_back(std::move(o));
    };
    for (const ir::Output& o : from_.outputs) {
      if (o.to != ir::Output::To::size || data_ == SizesFromData::allowed) give({values_.read(o.value), o.name, o.order, o.to});
    }
    for (ValueId leaf : values_.written_leaves()) {
      const ir::Weight* w = from_.weight_of(leaf);
      give({values_.read(leaf), w != nullptr ? w->name : input_name(leaf), {}, w != nullptr ? ir::Output::To::weight : ir::Output::To::input});
    }
    to_.current_origin = ir::none_id;
    to_.current_group = 0;
    return std::move(to_);
  }

  std::vector<Missing> missing;

 private:
  std::string input_name(ValueId leaf) const {
    for (const ir::Input& i : from_.inputs) {
      if (i.value == leaf) return i.name;
    }
    fail(Code::internal, "value {} is no input", leaf);
  }

  // A leaf whose axes lie in another order has them so; what is read is a view of it. The parts of a complex leaf are its innermost axis.
  static ir::Type as_it_lies(const ir::Type& given, const std::vector<int64_t>& order) {
    ir::Type lies = given;
    for (size_t i = 0; i < order.size(); ++i) lies.dims[i] = given.dims[static_cast<size_t>(order[i])];
    if (is_complex(given.dtype)) {
      lies.dtype = ir::part_type(given.dtype);
      lies.dims.push_back(2);
    }
    return lies;
  }
  static std::vector<int64_t> in_memory(const ir::Type& given, std::vector<int64_t> order) {
    if (is_complex(given.dtype) && !order.empty()) order.push_back(given.rank());
    return order;
  }
  // `order`: that of the leaf's axes in memory.
  ValueId turned_back(ValueId leaf, const std::vector<int64_t>& order, const ir::Type& given) {
    ir::Handle x(&to_, leaf);
    if (!order.empty()) {
      ir::Axes back(order.size());
      for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<ir::Axis>(i);
      x = ir::permute(x, back);
    }
    return (is_complex(given.dtype) ? ops::of_interleaved(x) : x).id();
  }
  ValueId input(ValueId leaf) {
    const ir::Value& given = from_.values[leaf];
    const std::vector<int64_t> order = in_memory(given.type, given.order);
    return turned_back(to_.add_input(given.name, as_it_lies(given.type, given.order), order), order, given.type);
  }

  // A new value for an input's memory.
  ValueId as_it_lies(const std::string& name, ValueId value) {
    for (const ir::Input& i : to_.inputs) {
      if (i.name == name && !i.order.empty()) return ir::permute(ir::Handle(&to_, value), ir::Axes(i.order.begin(), i.order.end())).id();
    }
    return value;
  }

  // What is written, with the sizes of the memory it is written to. Torch may know them as other symbols (`out=` of dynamic sizes): each call checks that
  // they are equal.
  ValueId fitting(const ir::Output& o) {
    const ValueId leaf = to_.written_by(o);
    if (leaf == ir::none_id) return o.value;
    const ir::Type memory = to_.type(leaf), made = to_.type(o.value);
    if (memory == made || memory.dtype != made.dtype || memory.rank() != made.rank()) return o.value;
    ir::AffineMap map{memory.dims, {}, std::nullopt};
    for (uint32_t i = 0; i < memory.dims.size(); ++i) {
      map.axes.push_back({0, {{i, 1}}});
      if (memory.dims[i] == made.dims[i]) continue;
      to_.checks.push_back({memory.dims[i], made.dims[i], ir::Check::equal, to_.producer(o.value).origin, fmt::format("what is written to \"{}\" has its sizes", o.name)});
    }
    return ir::view(ir::Handle(&to_, o.value), std::move(map)).id();
  }

  std::string where(const Node& node) const { return node.origin == ir::none_id ? "" : from_.origins[node.origin].text(); }

  // The call's results in the new graph, from the newest values of its operands.
  ops::Results results_of(const Node& node, const ops::Operator& op) {
    ir::Attributes arguments;
    for (const auto& [name, value] : node.attributes) {
      if (name != "target" && name != ops::operand_order) arguments.set(name == ir::target_argument ? std::string("target") : name, value);
    }
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(values_.read(v));
    if (node.attributes.find(ops::operand_order) != nullptr) in[0] = ir::permute(ir::Handle(&to_, in[0]), node.attributes.integers(ops::operand_order)).id();
    return ops::expand(to_, op, arguments, in, node.out.size());
  }

  // A view made again after its memory was written.
  ops::Results again(const Node& node) { return results_of(node, *definition(node, node.attributes.string("target"))); }

  // Null if there is none. Definitions for complex numbers are also of operators that have some inside.
  const ops::Operator* definition(const Node& node, std::string_view target) const {
    const ops::Operator* real = ops::has_complex(from_, node) ? nullptr : ops::find(target);
    return real != nullptr ? real : ops::find_complex(target);
  }

  void expand(ir::NodeId id) {
    const Node& node = from_.nodes[id];
    std::string target = node.attributes.string("target");
    to_.current_origin = node.origin;
    ++to_.current_group;
    ops::Results results;
    to_.expected_sizes = unknown_sizes(node);
    const std::vector<ir::SymbolId> expected = to_.expected_sizes;
    try {
      if (node.attributes.find("graphs") != nullptr) {
        results = control(node);
        name_sizes(node, results);
        for (size_t i = 0; i < node.out.size(); ++i) check(node, target, from_.type(node.out[i]), results[i].type());
        define(id, results);
        return;
      }
      if (has_kernel(node)) {
        std::vector<ValueId> in;
        for (ValueId v : node.in) in.push_back(values_.read(v));
        results = expand_external(to_, from_, node, in);
        define(id, results);
        return;
      }
      const ops::Operator* op = definition(node, target);
      bool writes = false;
      if (op == nullptr) {
        std::string functional = functional_name(target);
        writes = !functional.empty() && !node.in.empty();
        if (writes) op = definition(node, functional);
      }
      if (op == nullptr) {
        refuse(id, draws(target) ? fmt::format("{} draws random numbers, which only torch's generator gives", node_name(node)) : lacking(target, ops::has_complex(from_, node)));
        return;
      }
      results = results_of(node, *op);
      if (writes && target != "aten.detach_.default" && !results.empty()) {
        values_.write(id, results[0]);
        results[0] = ir::Handle(&to_, values_.read(node.in[0]));
      }
      if (results.size() < node.out.size()) fail(Code::internal, "{} ({}) has {} results where torch recorded {}", node_name(node), target, results.size(), node.out.size());
      if (data_ == SizesFromData::allowed) name_sizes(node, results);
      if (data_ == SizesFromData::refused && !to_.outputs.empty()) {
        refuse(id, "it reads a size from the values of a tensor, which runs here only where the whole model does");
        return;
      }
      if (!to_.expected_sizes.empty()) {
        refuse(id, size_reason(to_.expected_sizes[0]));
        return;
      }
      for (ir::SymbolId s : expected) known_sizes_[s] = true;
      // Of what nobody reads torch itself records one thing on the CPU and another on a GPU (statistics of batch_norm).
      for (size_t i = 0; i < node.out.size(); ++i) {
        if (i != 0 && !read_[node.out[i]]) continue;
        check(node, target, from_.type(node.out[i]), results[i].type());
        if (!writes) results[i] = with_known_sizes(results[i], from_.type(node.out[i]).dims);
      }
    } catch (Error& e) {
      // torch accepted the call, so what a definition refuses is what ingot lacks: a dtype, a form of an argument.
      if (e.code == Code::unsupported || e.code == Code::invalid_input) {
        refuse(id, e.message);
        return;
      }
      if (e.code == Code::internal) {
        refuse(id, e.message + " (a fault of ingot; please report it)");
        return;
      }
      e.message = fmt::format("{} ({}): {}", node_name(node), target, e.message);
      if (e.origin.empty()) e.origin = where(node);
      throw;
    }
    define(id, results);
    values_.note_views(id);
  }

  void define(ir::NodeId id, const ops::Results& results) {
    const Node& node = from_.nodes[id];
    for (size_t i = 0; i < node.out.size(); ++i) {
      ValueId v = results[i].id();
      values_.define(node.out[i], v);
      if (to_.values[v].name.empty()) to_.values[v].name = from_.values[node.out[i]].name;
    }
  }

  // torch may have a name of its own for a size of a result that is known here: it is read like one that comes from data.
  void name_sizes(const Node& node, const ops::Results& results) {
    for (size_t i = 0; i < node.out.size(); ++i) {
      const ir::Dims recorded = from_.type(node.out[i]).dims;
      for (size_t d = 0; d < recorded.size() && d < results[i].dims().size(); ++d) {
        auto s = recorded[d].as_symbol();
        auto next = s ? std::find(to_.expected_sizes.begin(), to_.expected_sizes.end(), *s) : to_.expected_sizes.end();
        if (next == to_.expected_sizes.end()) continue;
        const ir::Dim size = results[i].dims()[d];
        std::vector<ir::SymbolId> of;
        size.collect_symbols(of);
        if (std::find(of.begin(), of.end(), *s) != of.end()) continue;  // what gives it comes later
        std::iter_swap(to_.expected_sizes.begin(), next);
        ir::read_size(ir::Handle(&to_, to_.add(Op::size, {}, {{"dim", size}}, {ir::DType::i64, {}})), size);
        known_sizes_[*s] = true;
      }
    }
  }

  // A branch or a loop: its graphs are expanded too.
  ops::Results control(const Node& node) {
    const bool branch = node.attributes.string("target") == "higher_order.cond";
    ir::List graphs;
    const std::vector<ir::GraphRef> captured = node.attributes.graphs("graphs");
    for (const ir::GraphRef& g : captured) {
      Expander inner(*g, data_, known_sizes_);
      Graph made = inner.run();
      made.remove_unused();
      if (!inner.missing.empty()) {
        const Missing& m = inner.missing[0];
        fail(Code::unsupported, "inside it {}: {}", m.target, m.reason);
      }
      for (const ir::Output& o : made.outputs) {
        if (o.to == ir::Output::To::input || o.to == ir::Output::To::weight) fail(Code::unsupported, "inside it \"{}\" is written in place", o.name);
      }
      graphs.push_back(ir::GraphRef(std::make_shared<const Graph>(std::move(made))));
    }
    std::vector<ValueId> in;
    for (ValueId v : node.in) in.push_back(values_.read(v));
    ir::Attributes attributes{{"graphs", std::move(graphs)}};
    if (branch) {
      in[0] = ir::reshape(ir::to_bool(ir::Handle(&to_, in[0])), {}).id();
    } else {
      attributes.set("carried", node.attributes.integer("carried"));
    }
    const Op op = branch ? Op::branch : Op::loop;
    const ir::NodeId made = to_.add_node(op, in, attributes, ir::infer(to_, op, in, attributes));
    ops::Results out;
    for (ValueId v : to_.nodes[made].out) out.push_back(ir::Handle(&to_, v));
    return out;
  }

  std::string node_name(const Node& node) const {
    if (!node.out.empty() && !from_.values[node.out[0]].name.empty()) return from_.values[node.out[0]].name;
    return node.origin == ir::none_id ? "a node" : from_.origins[node.origin].node;
  }

  // Random numbers that nobody reads are not drawn. torch keeps the call in its graph, because it moves the generator on.
  bool is_unread_draw(const Node& node) const {
    return draws(node.attributes.string("target")) && node.in.empty() && std::none_of(node.out.begin(), node.out.end(), [&](ValueId v) { return read_[v]; });
  }

  // What no definition can support: a form that only torch knows, complex numbers that go into branches and loops, a size that comes from the values of a tensor.
  bool refuse_early(ir::NodeId id) {
    const Node& node = from_.nodes[id];
    if (const ir::Attribute* reason = node.attributes.find("torch_only")) {
      refuse(id, std::get<std::string>(reason->value));
      return true;
    }
    if (node.attributes.find("graphs") != nullptr && ops::has_complex(from_, node)) {
      refuse(id, "branches and loops take and give no complex numbers");
      return true;
    }
    // What it reads from data itself is in the sizes of its results alone.
    const std::vector<ir::SymbolId> unknown = unknown_sizes(node);
    const std::vector<ir::SymbolId> made = data_ == SizesFromData::allowed ? plain_sizes(node) : std::vector<ir::SymbolId>();
    for (ir::SymbolId s : unknown) {
      if (std::find(made.begin(), made.end(), s) != made.end()) continue;
      refuse(id, size_reason(s));
      return true;
    }
    return false;
  }

  std::string size_reason(ir::SymbolId s) const {
    return fmt::format(
        "the size {} does not follow from the sizes of the inputs: it comes from the values of a tensor (nonzero, item, boolean index) or from a number given as an input",
        from_.symbols[s].name);
  }

  // Sizes that the node's operands, results or arguments use and that no axis of a tensor before it gives.
  std::vector<ir::SymbolId> unknown_sizes(const Node& node) const {
    std::vector<ir::SymbolId> unknown;
    const bool control = node.attributes.find("graphs") != nullptr;  // its graphs know their own sizes
    std::vector<ir::SymbolId> used = control ? plain_sizes(node) : ir::used_symbols(from_, node);
    for (ValueId v : node.in) {
      for (const ir::Dim& d : from_.type(v).dims) d.collect_symbols(used);
    }
    for (ir::SymbolId s : used) {
      if (!known_sizes_[s] && std::find(unknown.begin(), unknown.end(), s) == unknown.end()) unknown.push_back(s);
    }
    return unknown;
  }

  // Axes of the results that are a size of their own.
  std::vector<ir::SymbolId> plain_sizes(const Node& node) const {
    std::vector<ir::SymbolId> out;
    for (ValueId v : node.out) {
      for (const ir::Dim& d : from_.type(v).dims) {
        if (auto s = d.as_symbol()) out.push_back(*s);
      }
    }
    return out;
  }

  void know(ValueId v) {
    for (const ir::Dim& d : from_.type(v).dims) {
      if (auto size = ir::linear_size(d)) known_sizes_[size->symbol] = true;
    }
  }

  void refuse(ir::NodeId id, const std::string& reason) {
    const Node& node = from_.nodes[id];
    missing.push_back({node.attributes.string("target"), reason, where(node), id});
    // The walk goes on, so that one error names all missing operators; the call stays in the graph.
    std::vector<ir::Type> types;
    for (ValueId v : node.out) {
      types.push_back(as_it_lies(from_.type(v), {}));
      know(v);  // torch makes it
    }
    ir::NodeId made = to_.add_node(Op::call, {}, node.attributes, std::move(types));
    for (size_t i = 0; i < node.out.size(); ++i) values_.define(node.out[i], turned_back(to_.nodes[made].out[i], {}, from_.type(node.out[i])));
  }

  // What autocast casts first of all.
  static bool is_product(std::string_view target) {
    constexpr std::string_view names[] = {"linear", "matmul", "mm",     "bmm",    "addmm",       "baddbmm",
                                          "addbmm", "conv1d", "conv2d", "conv3d", "convolution", "scaled_dot_product_attention"};
    std::string_view name = target.substr(target.find('.') + 1);
    return std::find(std::begin(names), std::end(names), name.substr(0, name.find('.'))) != std::end(names);
  }

  void check(const Node& node, const std::string& target, const ir::Type& recorded, const ir::Type& inferred) {
    auto mismatch = [&]() -> void {
      throw Error(Code::internal, fmt::format("{} ({}): torch recorded {}, the operator table infers {}", node_name(node), target, show(recorded, to_), show(inferred, to_)),
                  where(node), "This is a fault of ingot's operator table; please report it.");
    };
    if (recorded.dtype != inferred.dtype && ir::size_of(recorded.dtype) == 2 && is_float(recorded.dtype) && is_product(target)) {
      fail(Code::unsupported,
           "torch recorded {}, its operands give {}: the program was exported under torch.autocast, whose casts torch.export does not write down (export it outside, or let "
           "ingot.compile read it with torch)",
           show(recorded, to_), show(inferred, to_));
    }
    if (recorded.dtype != inferred.dtype || recorded.dims.size() != inferred.dims.size()) mismatch();
    for (size_t i = 0; i < recorded.dims.size(); ++i) {
      switch (known_equal(recorded.dims[i], inferred.dims[i], to_.symbols)) {
        case ir::Truth::yes: break;
        case ir::Truth::no: mismatch(); break;
        case ir::Truth::unknown:
          to_.checks.push_back(
              {inferred.dims[i], recorded.dims[i], ir::Check::equal, node.origin, fmt::format("axis {} of {} has the size recorded at capture", i, node_name(node))});
      }
    }
  }

  // Where torch recorded a number and the definition gives an expression, which is checked to be that number, what follows reads the number: a size of 1
  // broadcasts, an expression that will be 1 does not.
  ir::Handle with_known_sizes(const ir::Handle& x, const ir::Dims& recorded) {
    ir::AffineMap map{x.dims(), {}, std::nullopt};
    bool changed = false;
    for (uint32_t i = 0; i < recorded.size(); ++i) {
      const bool is_new = recorded[i].is_constant() && !x.dims()[i].is_constant();
      if (is_new) map.dims[i] = recorded[i];
      map.axes.push_back({0, {{i, 1}}});
      changed = changed || is_new;
    }
    return changed ? ir::view(x, std::move(map)) : x;
  }

  const Graph& from_;
  const SizesFromData data_;
  Graph to_;
  Versions values_;
  std::vector<bool> read_;         // per value of from_
  std::vector<bool> known_sizes_;  // per symbol
};

}  // namespace

std::vector<Missing> missing_operators(const Graph& captured, SizesFromData data) {
  Expander expander(captured, data);
  expander.run();
  return std::move(expander.missing);
}

Graph expand_operators(const Graph& captured) {
  Expander expander(captured, SizesFromData::allowed);
  Graph out = expander.run();
  if (expander.missing.empty()) {
    for (const ir::Input& input : captured.inputs) {  // one that nothing reads, or that is a result as it is
      const ir::Attribute* reason = captured.producer(input.value).attributes.find("torch_only");
      if (reason != nullptr) throw Error(Code::unsupported, std::get<std::string>(reason->value)).fix("leave this part to PyTorch");
    }
    out.remove_unused();
    hold_as_signed(out);
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
  std::string remedy = "Replace them in the model, or leave this part to PyTorch.";
  if (std::any_of(expander.missing.begin(), expander.missing.end(), [](const Missing& m) { return draws(m.target); }))
    remedy += " Random numbers outside of branches and loops: ingot.compile(program, fallback=\"error\") in Python makes a plan that draws its own; or give them as an input.";
  throw Error(Code::unsupported, fmt::format("{} operator{} of the model {} not supported:{}", seen.size(), seen.size() == 1 ? "" : "s", seen.size() == 1 ? "is" : "are", text),
              expander.missing[0].origin, std::move(remedy));
}

}  // namespace ingot::lower
