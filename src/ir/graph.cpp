#include "ir/graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ir/written.h"

namespace ingot::ir {

std::string Origin::text() const {
  std::string out;
  if (!file.empty()) out = file + ":" + std::to_string(line);
  if (!module.empty()) out += (out.empty() ? "" : " in ") + module;
  if (!code.empty()) out += (out.empty() ? "`" : ": `") + code + "`";
  return out;
}

namespace {

Attributes leaf_attributes(const std::string& name, const std::vector<int64_t>& order) {
  Attributes out{{"name", Attribute(name)}};
  if (!order.empty()) out.set("order", to_attribute(order));
  return out;
}

}  // namespace

ValueId Graph::add_input(std::string name, Type type, std::vector<int64_t> order) {
  NodeId id = add_node(Op::input, {}, leaf_attributes(name, order), {std::move(type)});
  ValueId value = nodes[id].out[0];
  values[value].name = name;
  inputs.push_back({value, std::move(name), std::move(order)});
  return value;
}

ValueId Graph::add_weight(Weight weight, Type type) {
  NodeId id = add_node(Op::weight, {}, leaf_attributes(weight.name, weight.order), {std::move(type)});
  weight.value = nodes[id].out[0];
  values[weight.value].name = weight.name;
  weights.push_back(std::move(weight));
  return weights.back().value;
}

void Graph::make_weight(size_t input, Weight weight) {
  weight.value = inputs[input].value;
  Node& node = nodes[values[weight.value].producer];
  node.op = Op::weight;
  node.attributes = leaf_attributes(weight.name, weight.order);
  values[weight.value].name = weight.name;
  inputs.erase(inputs.begin() + static_cast<ptrdiff_t>(input));
  weights.insert(std::upper_bound(weights.begin(), weights.end(), weight.value, [](ValueId v, const Weight& w) { return v < w.value; }), std::move(weight));
}

void Graph::fill_weights(const std::function<void(Weight&, const Type&)>& fill) {
  for (Weight& w : weights) fill(w, type(w.value));
  for (Node& node : nodes) {
    if (node.op != Op::branch && node.op != Op::loop) continue;
    List filled;
    for (const GraphRef& inner : node.attributes.graphs("graphs")) {
      Graph copy = *inner;
      copy.fill_weights(fill);
      filled.push_back(GraphRef(std::make_shared<const Graph>(std::move(copy))));
    }
    node.attributes.set("graphs", std::move(filled));
  }
}

ValueId Graph::add(Op op, std::vector<ValueId> in, Attributes attributes, Type type) { return nodes[add_node(op, std::move(in), std::move(attributes), {std::move(type)})].out[0]; }

NodeId Graph::add_node(Op op, std::vector<ValueId> in, Attributes attributes, std::vector<Type> types) {
  auto id = static_cast<NodeId>(nodes.size());
  Node node{op, std::move(in), {}, std::move(attributes), current_origin, current_group};
  for (Type& type : types) {
    node.out.push_back(static_cast<ValueId>(values.size()));
    values.push_back(Value{std::move(type), id, {}, {}});
  }
  nodes.push_back(std::move(node));
  return id;
}

const Weight* Graph::weight_of(ValueId v) const {
  auto at = std::lower_bound(weights.begin(), weights.end(), v, [](const Weight& w, ValueId x) { return w.value < x; });
  return at != weights.end() && at->value == v ? &*at : nullptr;
}

Dims Graph::given_dims(ValueId v, const std::vector<int64_t>& order) const {
  const Dims& have = type(v).dims;
  Dims out = have;
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = have[i];
  return out;
}

OriginId Graph::add_origin(Origin origin) {
  // Nodes of one line come one after another, so looking back a little finds nearly all repeats.
  size_t from = origins.size() > 8 ? origins.size() - 8 : 0;
  for (size_t i = origins.size(); i-- > from;) {
    if (origins[i] == origin) return static_cast<OriginId>(i);
  }
  origins.push_back(std::move(origin));
  return static_cast<OriginId>(origins.size() - 1);
}

namespace {

[[noreturn]] void fail_unknown_leaf(const Output& o) {
  fail(Code::internal, "graph is broken: it writes to \"{}\", which is not {} of it", o.name, o.to == Output::To::input ? "an input" : "a weight");
}

}  // namespace

ValueId Graph::written_by(const Output& o) const {
  if (o.to == Output::To::caller || o.to == Output::To::size) return none_id;
  for (const Input& i : inputs) {
    if (o.to == Output::To::input && i.name == o.name) return i.value;
  }
  for (const Weight& w : weights) {
    if (o.to == Output::To::weight && w.name == o.name) return w.value;
  }
  fail_unknown_leaf(o);
}

std::vector<ValueId> written_by_outputs(const Graph& g) {
  std::vector<ValueId> out(g.outputs.size(), none_id);
  if (std::all_of(g.outputs.begin(), g.outputs.end(), [](const Output& o) { return o.to == Output::To::caller || o.to == Output::To::size; })) return out;
  std::unordered_map<std::string_view, ValueId> inputs, weights;
  for (const Input& i : g.inputs) inputs.emplace(i.name, i.value);
  for (const Weight& w : g.weights) weights.emplace(w.name, w.value);
  for (size_t i = 0; i < out.size(); ++i) {
    const Output& o = g.outputs[i];
    if (o.to == Output::To::caller || o.to == Output::To::size) continue;
    const auto& leaves = o.to == Output::To::input ? inputs : weights;
    auto found = leaves.find(o.name);
    if (found == leaves.end()) fail_unknown_leaf(o);
    out[i] = found->second;
  }
  return out;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> out(values.size());
  for (NodeId n = 0; n < nodes.size(); ++n) {
    for (ValueId v : nodes[n].in) {
      if (out[v].empty() || out[v].back() != n) out[v].push_back(n);
    }
  }
  return out;
}

void Graph::replace_uses(ValueId from, ValueId to) {
  for (Node& node : nodes) std::replace(node.in.begin(), node.in.end(), from, to);
  for (Output& output : outputs) {
    if (output.value == from) output.value = to;
  }
}

void Graph::remove_unused() {
  std::vector<bool> needed(nodes.size(), false);
  auto need = [&](ValueId v) { needed[values[v].producer] = true; };
  for (const Input& input : inputs) need(input.value);
  for (const Output& output : outputs) need(output.value);
  for (ValueId leaf : written_by_outputs(*this)) {
    if (leaf != none_id) need(leaf);
  }
  for (size_t n = nodes.size(); n-- > 0;) {
    if (!needed[n]) continue;
    for (ValueId v : nodes[n].in) need(v);
  }
  size_t known = 0;
  bool in_order = true;  // values are numbered as their nodes come
  for (const Node& node : nodes) {
    for (ValueId v : node.out) in_order = v == known++ && in_order;
  }
  if (in_order && known == values.size() && std::find(needed.begin(), needed.end(), false) == needed.end()) return;
  std::vector<Node> kept_nodes;
  std::vector<Value> kept_values;
  std::vector<ValueId> renamed(values.size(), none_id);
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (!needed[n]) continue;
    Node node = std::move(nodes[n]);
    for (ValueId& v : node.in) v = renamed[v];
    for (ValueId& v : node.out) {
      renamed[v] = static_cast<ValueId>(kept_values.size());
      kept_values.push_back(std::move(values[v]));
      kept_values.back().producer = static_cast<NodeId>(kept_nodes.size());
      v = renamed[v];
    }
    kept_nodes.push_back(std::move(node));
  }
  nodes = std::move(kept_nodes);
  values = std::move(kept_values);
  for (Input& input : inputs) input.value = renamed[input.value];
  for (Output& output : outputs) output.value = renamed[output.value];
  std::erase_if(weights, [&](const Weight& w) { return renamed[w.value] == none_id; });
  for (Weight& w : weights) w.value = renamed[w.value];
}

Dims broadcast(const Dims& a, const Dims& b, std::span<const Symbol> symbols, std::vector<Check>* checks) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1), y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& result = out[out.size() - 1 - i];
    if (x == Dim(1)) {
      result = y;
    } else if (y == Dim(1) || x == y) {
      result = x;
    } else {
      if (known_equal(x, y, symbols) == Truth::no) {
        fail(Code::invalid_input, "sizes {} and {} do not broadcast", x.text(symbols), y.text(symbols));
      }
      // Undecided: the constant is the stronger statement.
      result = y.is_constant() ? y : x;
      if (checks != nullptr) checks->push_back({x, y, Check::equal, none_id, "the sizes of the operands are equal"});
    }
  }
  return out;
}

AffineMap permute_map(const Dims& dims, const std::vector<int64_t>& order) {
  AffineMap map;
  map.axes.resize(dims.size());
  for (size_t i = 0; i < order.size(); ++i) {
    auto from = static_cast<size_t>(order[i]);
    map.dims.push_back(dims[from]);
    map.axes[from].terms = {{static_cast<uint32_t>(i), 1}};
  }
  return map;
}

AffineMap expand_map(const Dims& from, const Dims& to) {
  AffineMap map;
  map.dims = to;
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    AffineMap::Axis axis;
    if (!(from[i] == Dim(1)) || to[lead + i] == Dim(1)) axis.terms = {{static_cast<uint32_t>(lead + i), 1}};
    map.axes.push_back(std::move(axis));
  }
  return map;
}

namespace {

AffineMap identity(const Dims& dims) {
  AffineMap map;
  map.dims = dims;
  for (size_t i = 0; i < dims.size(); ++i) map.axes.push_back({0, {{static_cast<uint32_t>(i), 1}}});
  return map;
}

}  // namespace

AffineMap slice_map(const Dims& dims, int64_t axis, Dim start, Dim size, int64_t step) {
  AffineMap map = identity(dims);
  auto a = static_cast<size_t>(axis);
  map.dims[a] = std::move(size);
  map.axes[a].offset = std::move(start);
  map.axes[a].terms[0].coefficient = step;
  return map;
}

AffineMap select_map(const Dims& dims, int64_t axis, Dim index) {
  AffineMap map;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == static_cast<size_t>(axis)) {
      map.axes.push_back({index, {}});
    } else {
      map.axes.push_back({0, {{static_cast<uint32_t>(map.dims.size()), 1}}});
      map.dims.push_back(dims[i]);
    }
  }
  return map;
}

AffineMap compose(const AffineMap& outer, const AffineMap& inner) {
  auto checked = [](bool overflows) {
    if (overflows) fail(Code::format, "steps of views of views are beyond 64 bits");
  };
  AffineMap map;
  map.dims = outer.dims;
  map.fill = outer.fill;
  for (const AffineMap::Axis& axis : inner.axes) {
    AffineMap::Axis result{axis.offset, {}};
    for (const AffineMap::Term& term : axis.terms) {
      const AffineMap::Axis& through = outer.axes[term.axis];
      result.offset = result.offset + Dim(term.coefficient) * through.offset;
      for (const AffineMap::Term& t : through.terms) {
        int64_t step;
        checked(__builtin_mul_overflow(term.coefficient, t.coefficient, &step));
        auto at = std::lower_bound(result.terms.begin(), result.terms.end(), t.axis, [](const AffineMap::Term& x, uint32_t a) { return x.axis < a; });
        if (at != result.terms.end() && at->axis == t.axis) {
          checked(__builtin_add_overflow(at->coefficient, step, &at->coefficient));
        } else {
          result.terms.insert(at, {t.axis, step});
        }
      }
    }
    std::erase_if(result.terms, [](const AffineMap::Term& t) { return t.coefficient == 0; });
    map.axes.push_back(std::move(result));
  }
  return map;
}

bool is_identity(const AffineMap& map, const Dims& operand) {
  if (map.fill || map.dims.size() != operand.size() || map.axes.size() != operand.size()) return false;
  for (size_t i = 0; i < operand.size(); ++i) {
    if (!(map.dims[i] == operand[i])) return false;
    const AffineMap::Axis& axis = map.axes[i];
    if (!(axis.offset == Dim(0))) return false;
    bool one = axis.terms.size() == 1 && axis.terms[0].axis == i && axis.terms[0].coefficient == 1;
    if (!one && !(axis.terms.empty() && operand[i] == Dim(1))) return false;
  }
  return true;
}

}  // namespace ingot::ir
