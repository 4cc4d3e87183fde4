// Which values are stored, and in which bodies the others live.
#include "compile/function.h"

#include <algorithm>
#include <set>

#include "kernels/fused/run/fused_args.h"

namespace ingot::compile {

using namespace ir;

ValueId FunctionCompiler::base_of(ValueId v) const {
  while (is_plain_view(g_, v) && !storage_.stored[v]) v = g_.producer(v).in[0];
  return v;
}

namespace {

// A cost that is reached is not counted further.
constexpr int dear = 1000;

// Of one element, in additions.
int own_cost(Op op) {
  switch (cost_of(op)) {
    case Cost::none: return 0;
    case Cost::cheap: return 1;
    case Cost::division:
    case Cost::root: return 3;
    case Cost::lookup: return 4;
    case Cost::function: return 10;
    case Cost::dear: return dear;
  }
  return dear;
}

// How large a body may become. Both bound the work of writing a body, and the depth to which the writer follows operands.
constexpr size_t most_reads = kernels::max_operands - 10;  // operands of its operations: each may be memory that it reads; a product has some of its own
constexpr size_t most_values = 500;                        // views counted too

struct Size {
  size_t reads = 0, values = 0;
};

}  // namespace

// What computing each value once more would cost, down to what is stored by now: cheap enough and it is not stored for a second user. `decide` stores a value
// when it comes to it, users first, so what is below a value is then as it is here.
std::vector<int> FunctionCompiler::costs() const {
  std::vector<int> cost(g_.values.size(), 0);
  for (const Node& n : g_.nodes) {
    int sum = own_cost(n.op);
    for (ValueId in : n.in) sum = std::min(dear, sum + cost[in]);
    for (ValueId v : n.out) cost[v] = storage_.stored[v] || is_leaf(v) ? 0 : sum;
  }
  return cost;
}

uint32_t FunctionCompiler::add_root(Root root) {
  storage_.roots.push_back(root);
  return static_cast<uint32_t>(storage_.roots.size() - 1);
}

// What must be stored whatever else is decided.
void FunctionCompiler::seed() {
  auto& stored = storage_.stored;
  auto store_base = [&](ValueId v) { stored[base_of(v)] = true; };
  for (ValueId v : cuts_) stored[v] = true;
  for (NodeId n = 0; n < g_.nodes.size(); ++n) {
    const Node& node = g_.nodes[n];
    switch (node.op) {
      case Op::input:
      case Op::weight: stored[node.out[0]] = true; break;
      case Op::view:
        if (node.attributes.map("map").fill) store_base(node.in[0]);
        break;
      case Op::gather:
      case Op::take_along: store_base(node.in[0]); break;
      case Op::matmul:
        if (!makes_row(node)) stored[rows_base(node.in[0])] = true;
        if (!apart(node)) store_base(node.in[1]);
        break;
      case Op::attention:
        for (size_t i = 0; i < 3; ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      case Op::concat: stored[node.out[0]] = !is_unmade(node.out[0]); break;
      case Op::update: stored[node.out[0]] = true; break;
      case Op::scatter:
      case Op::scatter_along:
        // The base is copied into the result, wherever it comes from.
        for (size_t i = 1; i < node.in.size(); ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      default:
        if (auto sum = node.out.empty() ? depthwise_convs_.end() : depthwise_convs_.find(node.out[0]); sum != depthwise_convs_.end()) {
          const Node& product = g_.producer(node.in[0]);
          stored[rows_base(product.in[sum->second])] = true;
          store_base(product.in[1 - sum->second]);
          break;
        }
        if (ir::is_inlined(node.op)) break;
        for (ValueId in : node.in) store_base(in);
        for (ValueId out : node.out) stored[out] = true;
    }
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    if (i < output_packed_.size() && output_packed_[i]) {
      store_base(g_.outputs[i].value);  // packed from wherever it is
    } else {
      stored[g_.outputs[i].value] = true;
    }
  }
}

void FunctionCompiler::decide() {
  size_t n = g_.values.size();
  storage_ = {};
  storage_.stored.assign(n, false);
  seed();
  const std::vector<int> cost = costs();
  std::vector<std::set<uint32_t>> homes(n);  // per value that is not stored: roots it is inlined into
  std::vector<Size> sizes;                   // per root: what is inlined there
  auto free = [&](ValueId v) { return is_generated(g_.producer(v).op); };
  auto size_of_node = [&](const Node& node) -> Size {
    if (free(node.out[0])) return {};
    if (is_plain_view(g_, node.out[0])) return {0, 1};
    return {static_cast<size_t>(std::count_if(node.in.begin(), node.in.end(), [&](ValueId in) { return !free(in); })), 1};
  };
  auto full = [&](uint32_t root, const Size& more) { return sizes[root].reads + more.reads > most_reads || sizes[root].values + more.values > most_values; };
  auto inline_into = [&](uint32_t root, const Size& more) {
    sizes.resize(storage_.roots.size());
    sizes[root].reads += more.reads;
    sizes[root].values += more.values;
  };
  for (NodeId id = static_cast<NodeId>(g_.nodes.size()); id-- > 0;) {
    const Node& node = g_.nodes[id];
    if (ir::is_leaf(node.op)) continue;
    const Size own = node.out.empty() ? Size{} : size_of_node(node);
    sizes.resize(storage_.roots.size());
    for (ValueId v : node.out) {
      if (storage_.stored[v]) continue;
      bool several = homes[v].size() > 1 && !is_plain_view(g_, v) && !free(v);
      if (several && (is_anchor(v) || cost[v] > 6)) storage_.stored[v] = true;
      if (is_anchor(v) && homes[v].empty()) storage_.stored[v] = true;
      if (std::any_of(homes[v].begin(), homes[v].end(), [&](uint32_t root) { return full(root, own); })) storage_.stored[v] = true;
      if (storage_.stored[v]) continue;
      for (uint32_t root : homes[v]) inline_into(root, own);
    }
    if (node.op == Op::matmul && makes_row(node)) homes[node.in[0]].insert(add_root({Root::Kind::row, node.in[0], node.out[0]}));
    // The contexts in which this node's operands are computed.
    std::set<uint32_t> context;
    for (ValueId v : node.out) {
      if (!storage_.stored[v]) {
        context.insert(homes[v].begin(), homes[v].end());
      } else if (is_inlined(node)) {
        auto [found, made] = storage_.root_of.try_emplace(v, 0);
        if (made) inline_into(found->second = add_root({Root::Kind::value, v, v}), own);
        context.insert(found->second);
      }
    }
    if (!node.out.empty() && is_inlined(node)) {
      for (ValueId in : node.in) {
        if (!storage_.stored[in]) homes[in].insert(context.begin(), context.end());
      }
    } else if (!node.out.empty() && is_anchor(node.out[0]) && storage_.stored[node.out[0]]) {
      storage_.root_of[node.out[0]] = add_root({Root::Kind::value, node.out[0], node.out[0]});
    } else if (node.op == Op::attention && node.in.size() == 4) {
      uint32_t r = add_root({Root::Kind::mask, node.in[3], node.out[0]});
      storage_.part_root[{id, 3}] = r;
      homes[node.in[3]].insert(r);
    } else if (node.op == Op::concat && storage_.stored[node.out[0]]) {
      const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
      Dim start = 0;
      for (uint32_t i = 0; i < node.in.size(); ++i) {
        uint32_t r = add_root({Root::Kind::concat_part, node.in[i], node.out[0], i, start});
        start += g_.type(node.in[i]).dims[axis];
        storage_.part_root[{id, i}] = r;
        homes[node.in[i]].insert(r);
      }
    } else if (node.op == Op::update || node.op == Op::scatter || node.op == Op::scatter_along) {
      for (uint32_t i = 0; i < (node.op == Op::update ? 2u : 1u); ++i) {
        uint32_t r = add_root({i == 0 ? Root::Kind::update_base : Root::Kind::update_value, node.in[i], node.out[0], i});
        storage_.part_root[{id, i}] = r;
        homes[node.in[i]].insert(r);
      }
    }
  }
}

}  // namespace ingot::compile
