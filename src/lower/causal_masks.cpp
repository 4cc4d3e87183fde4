// The causal part of an attention mask (no key after the query) becomes the flag `causal`, so that kernels skip that half. The rest of the mask stays an
// expression of indices and the padding mask. A part is dropped only if it is proved to be implied; one that keeps every key, such as a mask of ones, says nothing.
#include <cmath>
#include <set>

#include "lower/affine.h"
#include "lower/passes.h"

namespace ingot::lower {

namespace {

ValueId without_broadcast(const Graph& g, ValueId v) {
  while (only_broadcasts(g, maker(g, v))) v = maker(g, v).in[0];
  return v;
}

// The conditions of a conjunction, each once.
void conjuncts(const Graph& g, ValueId v, std::set<ValueId>& seen, std::vector<ValueId>& out) {
  v = without_broadcast(g, v);
  if (!seen.insert(v).second) return;
  const Node& n = maker(g, v);
  if (n.op == Op::bit_and && g.type(v).dtype == ir::DType::b8) {
    for (ValueId part : n.in) conjuncts(g, part, seen, out);
    return;
  }
  out.push_back(v);
}

// key index <= query index, over the last two axes of the scores.
bool is_causal(const Graph& g, AffineForms& forms, ValueId v, const Dim& queries, const Dim& keys) {
  const Dims& dims = g.type(v).dims;
  if (dims.size() < 2 || !(dims.back() == keys) || !(dims[dims.size() - 2] == queries)) return false;
  auto d = at_most_zero(forms, g, maker(g, v));
  if (!d || !(d->offset == Dim(0))) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t wanted = i + 1 == dims.size() ? 1 : i + 2 == dims.size() ? -1 : 0;
    if (d->steps[i] != wanted) return false;
  }
  return true;
}

}  // namespace

void causal_masks(Graph& g) {
  std::optional<AffineForms> forms;
  const Graph* at = nullptr;
  rewrite(g, [&](Graph& to, const Node& node, const std::vector<ValueId>& in) -> std::optional<ValueId> {
    if (node.op != Op::attention) return std::nullopt;
    const ir::AttentionInputs of = ir::attention_inputs(node, in);
    if (of.mask == ir::none_id || of.filled != ir::none_id) return std::nullopt;
    if (at != &to) forms.emplace(*(at = &to));
    Handle q(&to, in[0]), k(&to, in[1]), v(&to, in[2]);
    Dim queries = q.dim(-2), keys = k.dim(-2);
    double scale = node.attributes.number("scale");
    bool causal = node.attributes.boolean("causal");
    ValueId mask = without_broadcast(to, in[3]);
    ValueId condition = mask;
    bool added = to.type(mask).dtype != ir::DType::b8;
    if (added) {
      if (auto all = number_of(to, mask); all && all->to_double() == 0) return ir::attention(q, k, v, std::nullopt, scale, causal).id();
      // where(condition, 0, lowest): adding the lowest float removes a key, if the query has another one.
      const Node& n = maker(to, mask);
      if (n.op != Op::select) return std::nullopt;
      auto kept = number_of(to, n.in[1]), low = number_of(to, n.in[2]);
      if (!kept || !low || kept->to_double() != 0 || !(low->to_double() <= -60000)) return std::nullopt;
      condition = n.in[0];
    }
    std::vector<ValueId> parts, rest;
    std::set<ValueId> seen;
    conjuncts(to, condition, seen, parts);
    for (ValueId p : parts) {
      if (is_causal(to, *forms, p, queries, keys)) {
        causal = true;
      } else if (auto all = number_of(to, p); !all || all->to_double() == 0) {
        rest.push_back(p);
      }
    }
    if (rest.size() == parts.size()) return std::nullopt;
    if (rest.empty()) return ir::attention(q, k, v, std::nullopt, scale, causal).id();
    // If the lowest float is added instead of minus infinity, a query without keys averages all of them: the mask must stay whole.
    if (added) return std::nullopt;
    std::optional<Handle> left;
    for (ValueId p : rest) left = left ? *left & Handle(&to, p) : Handle(&to, p);
    return ir::attention(q, k, v, left, scale, causal).id();
  });
}

}  // namespace ingot::lower
