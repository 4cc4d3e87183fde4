// Attention over a cache that is filled up to a position. Its mask keeps keys up to a number that comes from data (`key <= position`), so keys after the largest one are kept for no query: the number of
// keys before that becomes the operand `filled`, and a kernel reads no others. If each sequence has positions of its own, each has a number of its own. The mask stays, unless it says no more than that.
#include <algorithm>
#include <set>

#include "compile/attention_sketch.h"
#include "compile/passes/passes.h"
#include "ir/compose.h"
#include "ir/replace.h"

namespace ingot::compile {

using namespace ir;

namespace {

// True for a view whose last axis is the last one of what it reads, or of which it reads one element.
bool keeps_last_axis(const Graph& g, const Node& view) {
  const AffineMap& map = view.attributes.map("map");
  const Dims& from = g.type(view.in[0]).dims;
  if (map.fill || from.empty() || map.dims.empty() || !(from.back() == map.dims.back())) return false;
  const auto last = static_cast<uint32_t>(map.dims.size() - 1);
  for (size_t i = 0; i < map.axes.size(); ++i) {
    for (const AffineMap::Term& t : map.axes[i].terms) {
      if (t.axis == last && i + 1 != map.axes.size()) return false;
    }
  }
  return map.axes.back() == AffineMap::Axis{0, {{last, 1}}};
}

// A condition on keys, and its axis of sequences. Without one it is taken to be one condition for all sequences.
struct Condition {
  ValueId value;
  std::optional<size_t> sequences;
  auto operator<=>(const Condition&) const = default;
};

// The same of what a view reads.
Condition source_of(const Graph& g, const Condition& of) {
  const Node& view = g.producer(of.value);
  Condition source{view.in[0], std::nullopt};
  if (!of.sequences) return source;
  const AffineMap& map = view.attributes.map("map");
  const auto axis = static_cast<uint32_t>(*of.sequences);
  for (size_t i = 0; i < map.axes.size(); ++i) {
    if (map.axes[i] == AffineMap::Axis{0, {{axis, 1}}}) {
      source.sequences = i;
    } else if (std::any_of(map.axes[i].terms.begin(), map.axes[i].terms.end(), [&](const AffineMap::Term& t) { return t.axis == axis; })) {
      return {source.value, std::nullopt};
    }
  }
  return source;
}

// The same of an operand, which broadcasts.
Condition operand_of(const Graph& g, const Condition& of, ValueId operand) {
  const size_t missing = g.type(of.value).dims.size() - g.type(operand).dims.size();
  if (!of.sequences || *of.sequences < missing) return {operand, std::nullopt};
  return {operand, *of.sequences - missing};
}

// The conditions of a conjunction, over the same keys.
void conjuncts(const Graph& g, Condition of, std::set<Condition>& seen, std::vector<Condition>& out) {
  while (g.producer(of.value).op == Op::view && keeps_last_axis(g, g.producer(of.value))) of = source_of(g, of);
  if (!seen.insert(of).second) return;
  const Node& n = g.producer(of.value);
  if (n.op != Op::bit_and) return out.push_back(of);
  for (ValueId part : n.in) conjuncts(g, operand_of(g, of, part), seen, out);
}

// The number of the key: an index of the last axis.
bool is_key(const Graph& g, ValueId v, const Dim& keys) {
  const Dims& dims = g.type(v).dims;
  if (dims.empty() || !(dims.back() == keys)) return false;
  while (g.producer(v).op == Op::view && keeps_last_axis(g, g.producer(v))) v = g.producer(v).in[0];
  const Node& n = g.producer(v);
  return n.op == Op::index && n.attributes.integer("axis") + 1 == static_cast<int64_t>(g.type(v).dims.size());
}

bool is_one_for_all_keys(const Graph& g, ValueId v, const Dim& keys) { return !(keys == Dim(1)) && (g.type(v).dims.empty() || g.type(v).dims.back() == Dim(1)); }

bool comes_from_data(const Graph& g, ValueId v, std::set<ValueId>& seen) {
  if (!seen.insert(v).second) return false;
  const Node& n = g.producer(v);
  if (n.op == Op::input || n.op == Op::weight) return true;
  for (ValueId in : n.in) {
    if (comes_from_data(g, in, seen)) return true;
  }
  return false;
}

// What a condition says about keys: it keeps none from `end` on (a number, or one for each sequence), and all before it if `is_all`.
struct End {
  Handle end;
  bool is_all;
};
std::optional<End> end_of_keys(Graph& g, const Condition& condition, const Dim& keys, const Dim& sequences) {
  const Node& n = g.producer(condition.value);
  const bool less = n.op == Op::lt || n.op == Op::le, more = n.op == Op::gt || n.op == Op::ge;
  if (!less && !more) return std::nullopt;
  const ValueId key = n.in[less ? 0 : 1], bound = n.in[less ? 1 : 0];
  if (g.type(bound).dtype != DType::i64 || !is_key(g, key, keys) || !is_one_for_all_keys(g, bound, keys)) return std::nullopt;
  if (std::set<ValueId> seen; !comes_from_data(g, bound, seen)) return std::nullopt;
  const bool inclusive = n.op == Op::le || n.op == Op::ge;
  const Dims& dims = g.type(bound).dims;
  const size_t none = dims.size(), axis = operand_of(g, condition, bound).sequences.value_or(none), each = axis != none && dims[axis] == sequences ? axis : none;
  Axes others;
  bool single = true;  // a number, or one for each sequence
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == each) continue;
    others.push_back(static_cast<Axis>(d));
    single = single && dims[d] == Dim(1);
  }
  const Handle x(&g, bound), last = single ? reshape(x, each != none ? Dims{sequences} : Dims{}) : amax(x, others);
  return End{inclusive ? minimum(last, Operand(keys - 1)) + 1 : last, single};
}

bool reads_filled_keys(const Graph& g, const Node& node, const Backend& backend) {
  return backend.has_offer(attention_sketch(g, node, {{kernels::Role::filled, {DType::i64, {g.type(node.out[0]).dims[0]}}}}));
}

// The numbers of keys by what they follow from: the layers of a model share their mask.
class FilledKeys {
 public:
  // The node is one of another graph, with a result of `dims`.
  std::optional<ValueId> run(Graph& to, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
    const AttentionInputs of = attention_inputs(node, in);
    const Handle q(&to, of.query), k(&to, of.key), v(&to, of.value);
    Found found{{}, k.dim(-2), dims[0]};
    std::set<Condition> seen;
    const bool has_sequences = to.type(of.mask).dims.size() == dims.size();
    conjuncts(to, {of.mask, has_sequences ? std::optional<size_t>(0) : std::nullopt}, seen, found.conditions);
    const auto same = [&](const Found& f) { return f.conditions == found.conditions && f.keys == found.keys && f.sequences == found.sequences; };
    auto known = std::find_if(known_.begin(), known_.end(), same);
    if (known == known_.end()) known = known_.insert(known_.end(), with_number(to, std::move(found)));
    if (!known->filled) return std::nullopt;
    std::optional<Handle> mask;
    if (!known->is_all) mask.emplace(&to, of.mask);
    return attention(q, k, v, mask, node.attributes.number("scale"), false, known->filled).id();
  }

 private:
  struct Found {
    std::vector<Condition> conditions;
    Dim keys, sequences;
    std::optional<Handle> filled = std::nullopt;
    bool is_all = true;  // the mask says no more
  };

  static Found with_number(Graph& to, Found f) {
    std::optional<Handle> end;
    for (const Condition& condition : f.conditions) {
      const std::optional<End> one = end_of_keys(to, condition, f.keys, f.sequences);
      f.is_all = f.is_all && one && one->is_all;
      if (one) end = end ? minimum(*end, one->end) : one->end;
    }
    if (end) f.filled = expand(minimum(maximum(*end, 0), Operand(f.keys)), {f.sequences});
    return f;
  }

  std::vector<Found> known_;
};

}  // namespace

void filled_keys(Graph& g, const Backend& backend) {
  FilledKeys keys;
  replace_nodes(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in, const std::vector<ValueId>&) -> std::optional<ValueId> {
    if (node.op != Op::attention || node.attributes.boolean("causal")) return std::nullopt;
    const AttentionInputs of = attention_inputs(node);
    // A float mask that adds the lowest number leaves a query without keys all of them; a b8 mask leaves it none.
    if (of.mask == none_id || of.filled != none_id || to.type(attention_inputs(node, in).mask).dtype != DType::b8) return std::nullopt;
    if (g.type(node.out[0]).dims.size() < 3 || !reads_filled_keys(g, node, backend)) return std::nullopt;
    return keys.run(to, node, in, g.type(node.out[0]).dims);
  });
}

}  // namespace ingot::compile
