// Which values are stored, and in which bodies the others live.
#include "compile/function.h"

#include <algorithm>

namespace ingot::compile {

using namespace ir;

bool FunctionCompiler::is_leaf(ValueId v) const {
  Op op = g_.producer(v).op;
  return op == Op::input || op == Op::weight;
}

// Computed inside the body of whoever uses it.
bool FunctionCompiler::inlinable(Op op) const {
  return is_map(op) || op == Op::view || op == Op::reshape || op == Op::literal || op == Op::size || op == Op::index || op == Op::reduce ||
         op == Op::gather || op == Op::take_along;
}

ValueId FunctionCompiler::base_of(ValueId v) const {
  while (is_plain_view(g_, v) && !layout_.stored[v]) v = g_.producer(v).in[0];
  return v;
}

// What computing the value once more would cost, down to what is stored: cheap enough and it is not stored for a second user.
int FunctionCompiler::cost(ValueId v) {
  if (layout_.stored[v] || is_leaf(v)) return 0;
  const Node& n = g_.producer(v);
  int own = 1;
  switch (n.op) {
    case Op::view:
    case Op::reshape:
    case Op::literal:
    case Op::size:
    case Op::index: own = 0; break;
    case Op::gather:
    case Op::take_along: own = 4; break;
    case Op::matmul:
    case Op::reduce: return 1000;
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt: own = 3; break;
    default:
      if (!is_map(n.op)) return 1000;
      if (n.op >= Op::exp && n.op <= Op::softplus) own = 10;
  }
  for (ValueId in : n.in) own = std::min(1000, own + cost(in));
  return own;
}

uint32_t FunctionCompiler::add_root(Root root) {
  layout_.roots.push_back(root);
  return static_cast<uint32_t>(layout_.roots.size() - 1);
}

// What must be stored whatever else is decided.
void FunctionCompiler::seed() {
  auto& stored = layout_.stored;
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
      case Op::join: stored[node.out[0]] = !is_unmade(node.out[0]); break;
      case Op::update: stored[node.out[0]] = true; break;
      case Op::scatter:
      case Op::scatter_along:
        // The base is copied into the result, wherever it comes from.
        for (size_t i = 1; i < node.in.size(); ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      default:
        if (auto sum = node.out.empty() ? window_sums_.end() : window_sums_.find(node.out[0]); sum != window_sums_.end()) {
          const Node& product = g_.producer(node.in[0]);
          stored[rows_base(product.in[sum->second])] = true;
          store_base(product.in[1 - sum->second]);
          break;
        }
        if (inlinable(node.op)) break;
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
  layout_ = {};
  layout_.stored.assign(n, false);
  layout_.homes.assign(n, {});
  seed();
  auto& homes = layout_.homes;
  for (NodeId id = static_cast<NodeId>(g_.nodes.size()); id-- > 0;) {
    const Node& node = g_.nodes[id];
    if (node.op == Op::input || node.op == Op::weight) continue;
    for (ValueId v : node.out) {
      if (layout_.stored[v]) continue;
      bool view = is_plain_view(g_, v) || node.op == Op::literal || node.op == Op::size || node.op == Op::index;
      bool several = homes[v].size() > 1 && !view;
      if (several && (is_anchor(v) || cost(v) > 6)) layout_.stored[v] = true;
      if (is_anchor(v) && homes[v].empty()) layout_.stored[v] = true;
    }
    if (node.op == Op::matmul && makes_row(node)) homes[node.in[0]].insert(add_root({Root::Kind::row, node.in[0], node.out[0]}));
    // The contexts in which this node's operands are computed.
    std::set<uint32_t> context;
    for (ValueId v : node.out) {
      if (!layout_.stored[v]) {
        context.insert(homes[v].begin(), homes[v].end());
      } else if (inlinable(node)) {
        auto [found, made] = layout_.root_of.try_emplace(v, 0);
        if (made) found->second = add_root({Root::Kind::value, v, v});
        context.insert(found->second);
      }
    }
    if (!node.out.empty() && inlinable(node)) {
      for (size_t i = 0; i < node.in.size(); ++i) homes[node.in[i]].insert(context.begin(), context.end());
    } else if (!node.out.empty() && is_anchor(node.out[0]) && layout_.stored[node.out[0]]) {
      layout_.root_of[node.out[0]] = add_root({Root::Kind::value, node.out[0], node.out[0]});
    } else if (node.op == Op::attention && node.in.size() == 4) {
      uint32_t r = add_root({Root::Kind::mask, node.in[3], node.out[0]});
      layout_.part_root[{id, 3}] = r;
      homes[node.in[3]].insert(r);
    } else if (node.op == Op::join && layout_.stored[node.out[0]]) {
      for (uint32_t i = 0; i < node.in.size(); ++i) {
        uint32_t r = add_root({Root::Kind::join_part, node.in[i], node.out[0], i});
        layout_.part_root[{id, i}] = r;
        homes[node.in[i]].insert(r);
      }
    } else if (node.op == Op::update || node.op == Op::scatter || node.op == Op::scatter_along) {
      for (uint32_t i = 0; i < (node.op == Op::update ? 2u : 1u); ++i) {
        uint32_t r = add_root({i == 0 ? Root::Kind::update_base : Root::Kind::update_value, node.in[i], node.out[0], i});
        layout_.part_root[{id, i}] = r;
        homes[node.in[i]].insert(r);
      }
    }
  }
}

}  // namespace ingot::compile
