// Work that both parts of a Fourier transform's result get before they are joined as complex numbers is done once, on the joined numbers: concat(re * s, im * s)
// is concat(re, im) * s. The transform writes into the concatenation, and the work is one step that reads neighbours in memory.
#include <algorithm>
#include <optional>
#include <vector>

#include "lower/passes.h"
#include "lower/rewrite.h"

namespace ingot::lower {

namespace {

// A view of a result of `transform`, with this work between them, last first.
struct Part {
  ValueId result;
  std::vector<const Node*> work = {};
};

std::optional<Part> part_of(const Graph& g, const std::vector<int>& uses, ValueId v) {
  const Node& view = maker(g, v);
  if (view.op != Op::view || uses[v] != 1 || view.attributes.map("map").fill) return std::nullopt;
  Part out{view.in[0]};
  for (;;) {
    const Node& node = maker(g, out.result);
    if (uses[out.result] != 1) return std::nullopt;
    if (node.op == Op::fourier || node.op == Op::fourier_of_real) return out;
    if (!is_map(node.op)) return std::nullopt;
    std::vector<ValueId> with_axes;
    std::copy_if(node.in.begin(), node.in.end(), std::back_inserter(with_axes), [&](ValueId in) { return !g.type(in).dims.empty(); });
    if (with_axes.size() != 1) return std::nullopt;
    out.work.push_back(&node);
    out.result = with_axes[0];
  }
}

// True if the same is done to another result of the same transform.
bool is_same(const Graph& g, const Part& a, const Part& b) {
  if (&maker(g, a.result) != &maker(g, b.result) || a.work.size() != b.work.size()) return false;
  return std::equal(a.work.begin(), a.work.end(), b.work.begin(), [&](const Node* x, const Node* y) {
    auto is_same_operand = [&](ValueId p, ValueId q) { return p == q || (!g.type(p).dims.empty() && !g.type(q).dims.empty()); };
    return x->op == y->op && x->attributes == y->attributes && std::equal(x->in.begin(), x->in.end(), y->in.begin(), y->in.end(), is_same_operand);
  });
}

}  // namespace

void join_parts(Graph& g) {
  const std::vector<int> uses = use_counts(g);
  rewrite_named(g, [&](Graph& to, const Node& node, const std::vector<ValueId>&, const std::vector<ValueId>& renamed) -> std::optional<ValueId> {
    if (node.op != Op::concat) return std::nullopt;
    std::vector<Part> parts;
    for (ValueId in : node.in) {
      auto part = part_of(g, uses, in);
      if (!part || part->work.empty() || (!parts.empty() && !is_same(g, parts[0], *part))) return std::nullopt;
      parts.push_back(std::move(*part));
    }
    std::vector<Handle> views;
    for (size_t i = 0; i < parts.size(); ++i) views.push_back(ir::view(Handle(&to, renamed[parts[i].result]), maker(g, node.in[i]).attributes.map("map")));
    ValueId joined = ir::concat(views, static_cast<ir::Axis>(node.attributes.integer("axis"))).id();
    for (auto work = parts[0].work.rbegin(); work != parts[0].work.rend(); ++work) {
      std::vector<ValueId> in;
      for (ValueId v : (*work)->in) in.push_back(g.type(v).dims.empty() ? renamed[v] : joined);
      ir::Type type = infer(to, (*work)->op, in, (*work)->attributes)[0];
      joined = to.add((*work)->op, std::move(in), (*work)->attributes, std::move(type));
    }
    return joined;
  });
}

}  // namespace ingot::lower
