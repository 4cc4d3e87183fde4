// Gives each stored value a buffer and a layout.
#include <algorithm>
#include <unordered_map>

#include "backend/tuning.h"
#include "compile/storage/phases.h"
#include "kernels/definition.h"

namespace ingot::compile {

using namespace ir;

plan::BufferId Buffers::arena(const Dim& bytes) {
  list.push_back({plan::Buffer::Kind::arena, 0, bytes});
  return static_cast<plan::BufferId>(list.size() - 1);
}

plan::BufferId Buffers::leaf(plan::Buffer::Kind kind, uint32_t index, const Dim& bytes) {
  auto [found, made] = of_leaf.try_emplace({kind, index}, static_cast<plan::BufferId>(list.size()));
  if (made) list.push_back({kind, index, bytes});
  return found->second;
}

namespace {

// True for the result [groups, .., columns] of a grouped convolution, or pointwise work on it.
bool is_of_groups(const StoragePlan& s, ValueId v) {
  const Graph& g = s.graph();
  const Dims& dims = g.type(v).dims;
  for (;;) {
    const Node& node = g.producer(v);
    if (node.op == Op::matmul) return is_convolution(node) && dims.size() > 2 && !(dims[0] == Dim(1)) && g.type(node.in[1]).dims[0] == dims[0];
    if (!is_map(node.op)) return false;
    const auto whole = std::find_if(node.in.begin(), node.in.end(), [&](ValueId in) { return g.type(in).dims == dims && !is_leaf(g.producer(in).op); });
    if (whole == node.in.end() || s.stored[*whole]) return false;
    v = *whole;
  }
}

// The layout in which the columns of all groups are contiguous.
StridedLayout groups_side_by_side(const Dims& dims) {
  Dims order(dims.begin() + 1, dims.end() - 1);
  order.push_back(dims.front());
  order.push_back(dims.back());
  StridedLayout w = row_major(order);
  w.dims = dims;
  std::rotate(w.strides.begin(), w.strides.end() - 2, w.strides.end() - 1);
  return w;
}

// The layout of a stored value in its own buffer: row-major, unless kernels write groups side by side, or a chain of views ends in a reshape that only
// another order of axes expresses (attention's heads before a projection).
StridedLayout layout_of(const StoragePlan& s, ValueId v) {
  const Context& c = *s.context;
  const Graph& g = c.graph;
  StridedLayout plain = row_major(g.type(v).dims);
  if (g.producer(v).op == Op::external) return plain;  // external kernels write row-major
  if (is_of_groups(s, v)) return groups_side_by_side(g.type(v).dims);
  std::vector<NodeId> chain;
  for (ValueId at = v; c.uses[at] == 1 && c.users[at].size() == 1;) {
    const Node& user = g.nodes[c.users[at][0]];
    bool bijective = user.op == Op::view && is_bijective(user.attributes.map("map"), g.type(at).dims);
    if ((!bijective && user.op != Op::reshape) || s.stored[user.out[0]]) break;
    chain.push_back(c.users[at][0]);
    at = user.out[0];
  }
  // Follow the views from a row-major layout: if all are expressible, keep it.
  std::optional<StridedLayout> w = plain;
  size_t last = 0;
  for (size_t i = 0; i < chain.size() && w; ++i) {
    const Node& node = g.nodes[chain[i]];
    w = through(*w, g, node);
    if (!w) last = i + 1;
  }
  if (w) return plain;
  StridedLayout back = row_major(g.type(g.nodes[chain[last - 1]].out[0]).dims);
  for (size_t i = last; i-- > 0;) {
    const Node& node = g.nodes[chain[i]];
    const Dims& operand = g.type(node.in[0]).dims;
    auto before = node.op == Op::reshape ? through_reshape(back, operand) : before_view(back, node.attributes.map("map"), operand);
    if (!before) return plain;
    back = *before;
  }
  return back;
}

void place_states(StoragePlan& s) {
  const Context& c = *s.context;
  const Graph& g = c.graph;
  auto& places = s.places;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Output& o = g.outputs[i];
    if (o.to == Output::To::caller || s.required.copied.contains(i) || is_leaf(g.producer(o.value).op) || places[o.value].buffer != UINT32_MAX) continue;
    BufferView leaf = places[c.written[i]];
    // The value that is updated is computed there too, version by version.
    for (ValueId v = o.value;;) {
      PlannedBuffer entry = s.buffers.list[leaf.buffer];
      s.buffers.list.push_back(entry);
      auto buffer = static_cast<plan::BufferId>(s.buffers.list.size() - 1);
      s.in_place[i].push_back(buffer);
      places[v] = {buffer, leaf.dtype, leaf.layout};
      const Node& node = g.producer(v);
      if (node.op != Op::update && node.op != Op::scatter && node.op != Op::scatter_along) break;
      ValueId base = node.in[0];
      if (is_leaf(g.producer(base).op) || !s.stored[base] || places[base].buffer != UINT32_MAX) break;
      v = base;
    }
  }
}

// The layout that the value below the views of `part` must have so that `part` has layout `w`; nullopt if no strides express it.
std::optional<StridedLayout> layout_below(const StoragePlan& s, ValueId part, StridedLayout w) {
  const Graph& g = s.graph();
  for (ValueId at = part; !s.stored[at];) {
    const Node& node = g.producer(at);
    const Dims& operand = g.type(node.in[0]).dims;
    auto before = node.op == Op::reshape ? through_reshape(w, operand) : before_view(w, node.attributes.map("map"), operand);
    if (!before) return std::nullopt;
    w = std::move(*before);
    at = node.in[0];
  }
  return w;
}

// True if rows are read in vectors of 16 bytes with the old layout but not with this one.
bool loses_alignment(const StridedLayout& w, DType type) {
  const auto size = static_cast<int64_t>(size_of(type));
  auto is_odd = [&](const Dim& elements) { return elements.constant().value_or(0) * size % backend::tuning::vector_bytes != 0; };
  if (w.dims.empty() || is_odd(w.dims.back())) return false;
  if (is_odd(w.offset)) return true;
  for (size_t a = 0; a + 1 < w.dims.size(); ++a) {
    if (!(w.dims[a] == Dim(1)) && is_odd(w.strides[a])) return true;
  }
  return false;
}

// A part of a concatenation without a place is computed directly inside the concatenation; for a view, the value below it. A part that has other
// readers is too, unless their reads would get slower.
void place_concat_parts(StoragePlan& s) {
  const Context& c = *s.context;
  const Graph& g = c.graph;
  auto& places = s.places;
  for (NodeId id = static_cast<NodeId>(g.nodes.size()); id-- > 0;) {
    const Node& node = g.nodes[id];
    if (node.op != Op::concat || !s.stored[node.out[0]]) continue;
    ValueId whole = node.out[0];
    if (places[whole].buffer == UINT32_MAX) {
      places[whole] = {s.buffers.arena(bytes_of(g.type(whole))), g.type(whole).dtype, row_major(g.type(whole).dims)};
    }
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Dim start = 0;
    std::unordered_map<ValueId, size_t> times;
    for (ValueId part : node.in) ++times[s.base_of(part)];
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      const ValueId base = s.base_of(node.in[i]);
      StridedLayout w = places[whole].layout;
      w.offset += w.strides[axis] * start;
      w.dims = g.type(node.in[i]).dims;
      start += w.dims[axis];
      const Op maker = g.producer(base).op;
      const bool has_own_memory = is_leaf(maker) || maker == Op::external || places[base].buffer != UINT32_MAX;
      if (!s.stored[base] || has_own_memory || times[base] > 1 || s.required.alone.contains(base)) continue;
      auto below = layout_below(s, node.in[i], std::move(w));
      if (!below || (c.uses[base] > 1 && loses_alignment(*below, g.type(base).dtype))) continue;
      places[base] = {places[whole].buffer, g.type(base).dtype, std::move(*below)};
      s.parts_in_place.insert({id, i});
    }
  }
}

// True if an offer wishes for the parts of its complex result between each other.
bool wants_interleaved_parts(const StoragePlan& s, const Node& node) {
  const kernels::PlainStep step = kernels::definition_of(node.op)->plain(s.graph(), node);
  const backend::Offers found = s.context->backend.offers(sketch_of(s.graph(), node, step.constants));
  return std::any_of(found.offers.begin(), found.offers.end(), [](const backend::Offer& o) { return has(o.wishes, backend::interleaved_parts); });
}

// The parts of a complex result without places are neighbours in memory, if the backend computes them so: in the order of the operands', which an inverse transform has swapped.
void place_parts(StoragePlan& s) {
  const Graph& g = s.graph();
  for (const Node& node : g.nodes) {
    if (node.op != Op::fourier && node.op != Op::fourier_of_real) continue;
    auto is_free = [&](ValueId v) { return s.stored[v] && s.places[v].buffer == UINT32_MAX && !s.required.alone.contains(v); };
    StridedLayout w = layout_of(s, node.out[0]);
    if (!is_free(node.out[0]) || !is_free(node.out[1]) || !(w == layout_of(s, node.out[1])) || !wants_interleaved_parts(s, node)) continue;
    for (Dim& d : w.strides) d = d * 2;
    const plan::BufferId both = s.buffers.arena(bytes_of(g.type(node.out[0])) * 2);
    auto is_placed = [&](ValueId v) { return s.places[s.base_of(v)].buffer != UINT32_MAX; };
    bool swapped = false;
    if (node.in.size() == 2 && is_placed(node.in[0]) && is_placed(node.in[1])) {
      const auto first = s.resolve(node.in[0]), second = s.resolve(node.in[1]);
      swapped = first && second && first->layout.offset == second->layout.offset + 1;
    }
    for (size_t k : {0, 1}) {
      s.places[node.out[k ^ swapped]] = {both, g.type(node.out[k]).dtype, w};
      w.offset += 1;
    }
  }
}

}  // namespace

void place(StoragePlan& s) {
  const Context& c = *s.context;
  const Graph& g = c.graph;
  using Kind = plan::Buffer::Kind;
  s.places.assign(g.values.size(), {});
  auto put = [&](ValueId v, plan::BufferId b, StridedLayout w) { s.places[v] = {b, g.type(v).dtype, std::move(w)}; };
  auto bind = [&](const std::string& name, ValueId v, plan::Binding::Kind kind) {
    s.bindings.push_back({name, g.type(v).dtype, g.type(v).dims, kind});
    return s.buffers.leaf(Kind::binding, static_cast<uint32_t>(s.bindings.size() - 1), bytes_of(g.type(v)));
  };
  for (const Input& in : g.inputs) {
    put(in.value, bind(in.name, in.value, plan::Binding::Kind::input), row_major(g.type(in.value).dims));
    s.bindings.back().dims = g.given_dims(in);
    s.bindings.back().order.assign(in.order.begin(), in.order.end());
  }
  std::vector<plan::BufferId> bound(g.outputs.size(), UINT32_MAX);
  if (!c.is_prepare) {
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      if (g.outputs[i].to == Output::To::caller) bound[i] = bind(g.outputs[i].name, g.outputs[i].value, plan::Binding::Kind::output);
    }
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Output& o = g.outputs[i];
    const ValueId leaf = c.written[i];
    if (o.to == Output::To::weight) {
      put(leaf, bind(o.name, leaf, plan::Binding::Kind::state), row_major(g.type(leaf).dims));
      s.bindings.back().weight = c.leaves.weight[leaf];
    } else if (o.to == Output::To::input) {
      s.bindings[s.buffers.list[s.places[leaf].buffer].index].written = true;
    }
  }
  for (const Weight& w : g.weights) {
    if (s.places[w.value].buffer != UINT32_MAX) continue;  // state
    bool derived = c.leaves.derived[w.value] != none_id;
    uint32_t index = derived ? c.leaves.derived[w.value] : c.leaves.weight[w.value];
    Dim bytes = derived ? Dim(c.derived[index].bytes) : bytes_of(g.type(w.value));
    put(w.value, s.buffers.leaf(derived ? Kind::derived : Kind::weight, index, bytes), row_major(g.type(w.value).dims));
  }
  place_states(s);
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const Output& o = g.outputs[i];
    if (c.is_prepare) {  // outputs are derived tensors
      if (c.derived[i].has_packing_step()) continue;
      put(o.value, s.buffers.leaf(Kind::derived, static_cast<uint32_t>(i), Dim(c.derived[i].bytes)), row_major(g.type(o.value).dims));
      continue;
    }
    // An output's binding is the memory of the first output with a computed value. Repeats, inputs and weights are copied at the end.
    if (bound[i] != UINT32_MAX && !is_leaf(g.producer(o.value).op) && s.places[o.value].buffer == UINT32_MAX) put(o.value, bound[i], row_major(g.type(o.value).dims));
  }
  place_concat_parts(s);
  place_parts(s);
  for (ValueId v = 0; v < g.values.size(); ++v) {
    if (s.stored[v] && s.places[v].buffer == UINT32_MAX) put(v, s.buffers.arena(bytes_of(g.type(v))), layout_of(s, v));
  }
}

}  // namespace ingot::compile
