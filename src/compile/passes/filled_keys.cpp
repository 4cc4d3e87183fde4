// Attention over a cache that is filled up to a position. Its mask keeps keys up to a number that comes from data (`key <= position`), so keys after the largest one are kept for no query: the number of
// keys before that becomes the operand `filled`, and a kernel reads no others. The mask stays, unless it says no more than that.
#include <algorithm>
#include <set>

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

// The conditions of a conjunction, over the same keys.
void conjuncts(const Graph& g, ValueId v, std::set<ValueId>& seen, std::vector<ValueId>& out) {
  while (g.producer(v).op == Op::view && keeps_last_axis(g, g.producer(v))) v = g.producer(v).in[0];
  if (!seen.insert(v).second) return;
  const Node& n = g.producer(v);
  if (n.op != Op::bit_and) return out.push_back(v);
  for (ValueId part : n.in) conjuncts(g, part, seen, out);
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

bool is_single(const Graph& g, ValueId v) {
  for (const Dim& d : g.type(v).dims) {
    if (!(d == Dim(1))) return false;
  }
  return true;
}

// What a condition says about keys: it keeps none from `end` on (a 0-d number), and all before it if `is_all`.
struct End {
  Handle end;
  bool is_all;
};
std::optional<End> end_of_keys(Graph& g, ValueId condition, const Dim& keys) {
  const Node& n = g.producer(condition);
  const bool less = n.op == Op::lt || n.op == Op::le, more = n.op == Op::gt || n.op == Op::ge;
  if (!less && !more) return std::nullopt;
  const ValueId key = n.in[less ? 0 : 1], bound = n.in[less ? 1 : 0];
  if (g.type(bound).dtype != DType::i64 || !is_key(g, key, keys) || !is_one_for_all_keys(g, bound, keys)) return std::nullopt;
  if (std::set<ValueId> seen; !comes_from_data(g, bound, seen)) return std::nullopt;
  const bool inclusive = n.op == Op::le || n.op == Op::ge, single = is_single(g, bound);
  Axes all;
  for (Axis d = 0; d < static_cast<Axis>(g.type(bound).dims.size()); ++d) all.push_back(d);
  const Handle x(&g, bound), last = single ? reshape(x, {}) : amax(x, all);
  return End{inclusive ? minimum(last, Operand(keys - 1)) + 1 : last, single};
}

bool reads_filled_keys(const Graph& g, const Node& node, const Backend& backend) {
  const AttentionInputs of = attention_inputs(node);
  backend::Attention sketch{g.type(of.query).dtype};
  sketch.d = g.type(of.query).dims.back();
  sketch.e = g.type(of.value).dims.back();
  sketch.batch_rank = g.type(node.out[0]).dims.size() - 2;
  backend::Site site{std::move(sketch)};
  site.operands.push_back({kernels::Role::filled, DType::i64, backend::unplaced({g.type(node.out[0]).dims[0]})});
  return backend.has_offer(site);
}

// The numbers of keys by what they follow from: the layers of a model share their mask.
class FilledKeys {
 public:
  // The node is one of another graph, with a result of `dims`.
  std::optional<ValueId> run(Graph& to, const Node& node, const std::vector<ValueId>& in, const Dims& dims) {
    const AttentionInputs of = attention_inputs(node, in);
    const Handle q(&to, of.query), k(&to, of.key), v(&to, of.value);
    Found found{{}, k.dim(-2), dims[0]};
    std::set<ValueId> seen;
    conjuncts(to, of.mask, seen, found.conditions);
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
    std::vector<ValueId> conditions;
    Dim keys, sequences;
    std::optional<Handle> filled = std::nullopt;
    bool is_all = true;  // the mask says no more
  };

  static Found with_number(Graph& to, Found f) {
    std::optional<Handle> end;
    for (ValueId condition : f.conditions) {
      const std::optional<End> one = end_of_keys(to, condition, f.keys);
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
