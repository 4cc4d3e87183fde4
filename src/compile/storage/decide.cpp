// Decides which values are stored, and into which bodies the others are inlined.
#include <algorithm>
#include <set>

#include "compile/storage/paged_keys.h"
#include "compile/storage/phases.h"
#include "compile/storage/tuning.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

using namespace storage_tuning;

// Cost of one element, in units of an addition.
int own_cost(Op op) {
  switch (cost_of(op)) {
    case Cost::none: return 0;
    case Cost::cheap: return 1;
    case Cost::division:
    case Cost::root: return root_additions;
    case Cost::lookup: return lookup_additions;
    case Cost::function: return function_additions;
    case Cost::dear: return dear;
  }
  return dear;
}

// Bounds on a body. They limit the work of writing it and the depth of the writer's recursion.
constexpr size_t max_reads = kernels::max_operands - storage_tuning::operands_of_kernel;  // operands of its operations, each of which may be a load

struct Size {
  size_t reads = 0, values = 0;
};

// Unknown sizes count as `unknown`.
int64_t elements(const Dims& dims, int64_t unknown) {
  int64_t n = 1;
  for (const Dim& d : dims) n *= d.constant().value_or(unknown);
  return n;
}

// True if writing the value and reading it again takes time. Unknown sizes count as 1.
bool is_large(const Dims& dims) { return elements(dims, 1) >= large_value; }

// Per value: the cost of computing it once more from what is stored so far. A cheap value is recomputed by each user instead of stored.
// `decide` walks from users to operands, so the cost below a value is still true when it gets there. A reduction that a large value
// reads counts nothing, since it would be stored.
std::vector<int> costs(const StoragePlan& s) {
  const Graph& g = s.graph();
  std::vector<int> cost(g.values.size(), 0);
  for (const Node& n : g.nodes) {
    int sum = own_cost(n.op);
    const bool large = !n.out.empty() && is_large(g.type(n.out[0]).dims);
    for (ValueId in : n.in) sum = std::min(dear, sum + (large && g.producer(in).op == Op::reduce ? 0 : cost[in]));
    for (ValueId v : n.out) cost[v] = s.stored[v] || is_leaf(n.op) ? 0 : sum;
  }
  return cost;
}

// True if pointwise work on one kernel's result of the same layout gives the value: the kernel can compute it in its epilogue at no cost.
bool is_epilogue(const StoragePlan& s, ValueId v) {
  const Graph& g = s.graph();
  const ir::Type& type = g.type(v);
  ir::NodeId anchor = none_id, newest = 0;  // newest stored operand; it must not depend on the anchor
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size(); ++k) {
    const ValueId at = seen[k];
    const Node& node = g.producer(at);
    if (is_leaf(node.op) || is_generated(node.op)) continue;
    if (s.stored[at]) {
      newest = std::max(newest, g.values[at].producer);
      continue;
    }
    if (s.is_anchor(at)) {
      const ir::Type& of = g.type(at);
      if (anchor != none_id || elements(of.dims, unknown_size) != elements(type.dims, unknown_size) || size_of(of.dtype) < size_of(type.dtype)) return false;
      anchor = g.values[at].producer;
      continue;
    }
    if ((!ir::is_map(node.op) && !is_plain_view(g, at)) || seen.size() > max_searched) return false;
    for (ValueId in : node.in) {
      if (std::find(seen.begin(), seen.end(), in) == seen.end()) seen.push_back(in);
    }
  }
  return anchor != none_id && newest < anchor;
}

// True if much larger bodies would recompute the value many times, like the scale of squeeze-and-excitation.
bool is_repeated(const StoragePlan& s, ValueId v, const std::set<uint32_t>& homes) {
  const Graph& g = s.graph();
  return !homes.empty() && std::all_of(homes.begin(), homes.end(), [&](uint32_t home) {
    return elements(g.type(s.roots[home].value).dims, unknown_size) >= repeated * elements(g.type(v).dims, unknown_size);
  });
}

// True if a step of its own costs less than recomputing the value for each element of much larger bodies, like the factor and the addend of a normalisation's
// channels. Its operands must be in memory: a reduction inside a body stays there.
bool is_worth_a_step(const StoragePlan& s, ValueId v, int cost, const std::set<uint32_t>& homes) {
  const Graph& g = s.graph();
  if (homes.empty() || cost < min_additions) return false;
  const int64_t own = elements(g.type(v).dims, unknown_size);
  const Machine& machine = s.context->backend.settings.machine;
  const double step = machine.launch * machine.f32;  // in additions
  for (uint32_t home : homes) {
    const int64_t size = elements(g.type(s.roots[home].value).dims, unknown_size);
    if (size < min_body || size < larger_body * own || static_cast<double>(cost * size) < step) return false;
  }
  std::vector<ValueId> seen{v};
  for (size_t k = 0; k < seen.size(); ++k) {
    const Node& node = g.producer(seen[k]);
    if (s.stored[seen[k]] || is_leaf(node.op)) continue;
    if ((!ir::is_map(node.op) && !is_plain_view(g, seen[k]) && !is_generated(node.op)) || seen.size() > max_searched) return false;
    for (ValueId in : node.in) {
      if (std::find(seen.begin(), seen.end(), in) == seen.end()) seen.push_back(in);
    }
  }
  return true;
}

// Marks the values that must be stored in any case.
void seed(StoragePlan& s) {
  const Context& c = *s.context;
  const Graph& g = c.graph;
  std::vector<bool>& stored = s.stored;
  auto store_base = [&](ValueId v) { stored[s.base_of(v)] = true; };
  for (ValueId v : s.required.stored) stored[v] = true;
  for (NodeId n = 0; n < g.nodes.size(); ++n) {
    const Node& node = g.nodes[n];
    switch (node.op) {
      case Op::input:
      case Op::weight: stored[node.out[0]] = true; break;
      case Op::view:
        if (node.attributes.map("map").fill) stored[s.base_of(node.in[0], s.windows.contains(node.out[0]))] = true;
        break;
      case Op::gather:
      case Op::take_along: store_base(node.in[0]); break;
      case Op::matmul:
        if (!s.has_prologue(node)) stored[s.base_of_a(node.in[0])] = true;
        if (const EncodedB* b = s.encoded(node)) {
          store_base(b->numbers);
          if (b->scale != none_id) store_base(b->scale);
          if (b->zero != none_id) store_base(b->zero);
        } else if (!s.concat_of_b(node)) {
          store_base(node.in[1]);
        }
        break;
      case Op::ragged_matmul:
        for (ValueId in : node.in) store_base(in);
        break;
      case Op::attention:
        if (const std::optional<PagedKeys> pages = paged_keys(g, node, c.backend)) {
          for (ValueId v : {node.in[0], pages->key.pool, pages->value.pool, pages->table}) store_base(v);
          for (const auto& scale : {pages->key_scale, pages->value_scale}) {
            if (scale) store_base(scale->pool);
          }
        } else {
          for (size_t i = 0; i < 3; ++i) store_base(node.in[i]);
        }
        if (const ValueId filled = ir::attention_inputs(node).filled; filled != none_id) store_base(filled);
        stored[node.out[0]] = true;
        break;
      case Op::concat: stored[node.out[0]] = !s.is_unmaterialised(node.out[0]) && !s.is_read_through(node.out[0]); break;
      case Op::update: stored[node.out[0]] = true; break;
      case Op::scatter:
      case Op::scatter_along:
        // The step copies the base into the result, so the base may be anywhere.
        for (size_t i = 1; i < node.in.size(); ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      default:
        if (auto sum = node.out.empty() ? s.depthwise.end() : s.depthwise.find(node.out[0]); sum != s.depthwise.end()) {
          const Node& product = g.producer(node.in[0]);
          stored[s.base_of_a(product.in[sum->second], true)] = true;
          store_base(product.in[1 - sum->second]);
          break;
        }
        if (ir::is_inlined(node.op)) break;
        for (ValueId in : node.in) store_base(in);
        for (ValueId out : node.out) stored[out] = true;
    }
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    if (c.is_prepare && c.derived[i].has_packing_step()) {
      for (ValueId v : packed_operands(g, g.outputs[i].value, *c.derived[i].packing)) store_base(v);  // the packing step reads it from anywhere
    } else {
      stored[g.outputs[i].value] = true;
    }
  }
}

// What a step that is not computed inside a body computes for itself: roots of operands.
std::vector<Root> parts_of(const StoragePlan& s, const Node& node) {
  const Graph& g = s.graph();
  std::vector<Root> out;
  if (node.op == Op::attention && ir::attention_inputs(node).mask != none_id) {
    out.push_back({Root::Kind::mask, node.in[3], node.out[0], 3});
  } else if (node.op == Op::concat && s.stored[node.out[0]]) {
    const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Dim start = 0;
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      out.push_back({Root::Kind::concat_part, node.in[i], node.out[0], i, start});
      start += g.type(node.in[i]).dims[axis];
    }
  } else if (node.op == Op::update || node.op == Op::scatter || node.op == Op::scatter_along) {
    for (uint32_t i = 0; i < (node.op == Op::update ? 2u : 1u); ++i) {
      out.push_back({i == 0 ? Root::Kind::update_base : Root::Kind::update_value, node.in[i], node.out[0], i});
    }
  }
  return out;
}

}  // namespace

void decide(StoragePlan& s) {
  const Graph& g = s.graph();
  const size_t n = g.values.size();
  s.stored.assign(n, false);
  seed(s);
  const std::vector<int> cost = costs(s);
  auto add_root = [&](Root root) {
    s.roots.push_back(std::move(root));
    return static_cast<uint32_t>(s.roots.size() - 1);
  };
  std::vector<std::set<uint32_t>> homes(n);  // per value that is not stored: the roots into which it is inlined
  std::vector<Size> sizes;                   // per root: the size of what is inlined
  std::vector<bool> reduced(n, false);       // a reduction in the same body reads it, perhaps through inlined work, so others may read it again
  auto free = [&](ValueId v) { return is_generated(g.producer(v).op); };
  auto size_of_node = [&](const Node& node) -> Size {
    if (free(node.out[0])) return {};
    if (is_plain_view(g, node.out[0])) return {0, 1};
    return {static_cast<size_t>(std::count_if(node.in.begin(), node.in.end(), [&](ValueId in) { return !free(in); })), 1};
  };
  auto full = [&](uint32_t root, const Size& more) { return sizes[root].reads + more.reads > max_reads || sizes[root].values + more.values > max_values; };
  auto inline_into = [&](uint32_t root, const Size& more) {
    sizes.resize(s.roots.size());
    sizes[root].reads += more.reads;
    sizes[root].values += more.values;
  };
  for (NodeId id = static_cast<NodeId>(g.nodes.size()); id-- > 0;) {
    const Node& node = g.nodes[id];
    if (is_leaf(node.op)) continue;
    const Size own = node.out.empty() ? Size{} : size_of_node(node);
    sizes.resize(s.roots.size());
    for (ValueId v : node.out) {
      if (s.stored[v]) continue;
      bool several = homes[v].size() > 1 && !is_plain_view(g, v) && !free(v);
      if (several && (s.is_anchor(v) || cost[v] > max_repeated_additions)) s.stored[v] = true;
      if (s.is_anchor(v) && homes[v].empty()) s.stored[v] = true;
      const bool widens = node.op == Op::cast && size_of(g.type(node.in[0]).dtype) < size_of(g.type(v).dtype);  // the narrow operand is stored instead
      if (ir::is_map(node.op) && !widens && (is_repeated(s, v, homes[v]) || reduced[v]) && is_epilogue(s, v)) s.stored[v] = true;
      if (ir::is_map(node.op) && is_worth_a_step(s, v, cost[v], homes[v])) s.stored[v] = true;
      if (std::any_of(homes[v].begin(), homes[v].end(), [&](uint32_t root) { return full(root, own); })) s.stored[v] = true;
      if (s.stored[v]) continue;
      for (uint32_t root : homes[v]) inline_into(root, own);
    }
    if (node.op == Op::matmul && s.has_prologue(node)) homes[node.in[0]].insert(add_root({Root::Kind::row, node.in[0], node.out[0]}));
    const bool is_reduced = !node.out.empty() && !s.stored[node.out[0]] && reduced[node.out[0]] && s.is_inlined(node);
    if (node.op == Op::reduce || is_reduced) {
      for (ValueId in : node.in) reduced[in] = true;
    }
    std::set<uint32_t> into;  // the roots in which this node's operands are computed
    for (ValueId v : node.out) {
      if (!s.stored[v]) {
        into.insert(homes[v].begin(), homes[v].end());
      } else if (s.is_inlined(node)) {
        auto [found, made] = s.root_of.try_emplace(v, 0);
        if (made) inline_into(found->second = add_root({Root::Kind::value, v, v}), own);
        into.insert(found->second);
      }
    }
    if (!node.out.empty() && s.is_inlined(node)) {
      for (ValueId in : node.in) {
        if (!s.stored[in]) homes[in].insert(into.begin(), into.end());
      }
    } else if (!node.out.empty() && s.is_anchor(node.out[0]) && s.stored[node.out[0]]) {
      s.root_of[node.out[0]] = add_root({Root::Kind::value, node.out[0], node.out[0]});
    } else {
      for (Root& part : parts_of(s, node)) {
        const ValueId value = part.value;
        const uint32_t index = part.part, r = add_root(std::move(part));
        s.part_root[{id, index}] = r;
        homes[value].insert(r);
      }
    }
  }
}

}  // namespace ingot::compile
