// The buffer and the layout of each stored value.
#include "compile/function.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace ingot::compile {

using namespace ir;

// The layout of a stored value in a buffer of its own: row-major, unless a view chain ends in a reshape that only
// another order of axes can express (attention's heads before a projection).
StridedLayout FunctionCompiler::layout_of(ValueId v) const {
  StridedLayout plain = row_major(g_.type(v).dims);
  std::vector<NodeId> chain;
  for (ValueId at = v; uses_[at] == 1 && users_[at].size() == 1;) {
    const Node& user = g_.nodes[users_[at][0]];
    bool bijective = user.op == Op::view && is_bijective(user.attributes.map("map"), g_.type(at).dims);
    if ((!bijective && user.op != Op::reshape) || storage_.stored[user.out[0]]) break;
    chain.push_back(users_[at][0]);
    at = user.out[0];
  }
  // Forward with the plain window: if all views are expressible, nothing is to be gained.
  std::optional<StridedLayout> w = plain;
  size_t last = 0;
  for (size_t i = 0; i < chain.size() && w; ++i) {
    const Node& node = g_.nodes[chain[i]];
    w = through(*w, g_, node);
    if (!w) last = i + 1;
  }
  if (w) return plain;
  StridedLayout back = row_major(g_.type(g_.nodes[chain[last - 1]].out[0]).dims);
  for (size_t i = last; i-- > 0;) {
    const Node& node = g_.nodes[chain[i]];
    const Dims& operand = g_.type(node.in[0]).dims;
    auto before = node.op == Op::reshape ? through_reshape(back, operand) : before_view(back, node.attributes.map("map"), operand);
    if (!before) return plain;
    back = *before;
  }
  return back;
}

plan::BufferId FunctionCompiler::arena_buffer(const Dim& bytes) {
  out_.buffers.push_back({plan::Buffer::Kind::arena, 0, sizes_.ref(bytes), 0, 0});
  return static_cast<plan::BufferId>(out_.buffers.size() - 1);
}

plan::BufferId FunctionCompiler::leaf_buffer(plan::Buffer::Kind kind, uint32_t index, const Dim& bytes) {
  auto [found, made] = leaf_buffers_.try_emplace({kind, index}, static_cast<plan::BufferId>(out_.buffers.size()));
  if (made) out_.buffers.push_back({kind, index, sizes_.ref(bytes), 0, 0});
  return found->second;
}

void FunctionCompiler::place_all() {
  using Kind = plan::Buffer::Kind;
  bindings_.clear();
  out_.buffers.clear();
  leaf_buffers_.clear();
  storage_.places.assign(g_.values.size(), {});
  auto bytes_of = [&](ValueId v) { return product(g_.type(v).dims) * Dim(static_cast<int64_t>(size_of(g_.type(v).dtype))); };
  auto put = [&](ValueId v, plan::BufferId b, StridedLayout w) { storage_.places[v] = {b, g_.type(v).dtype, std::move(w)}; };
  auto bind = [&](const std::string& name, ValueId v, plan::Binding::Kind kind) {
    bindings_.push_back({name, g_.type(v).dtype, sizes_.refs(g_.type(v).dims), {}, kind});
    return leaf_buffer(Kind::binding, static_cast<uint32_t>(bindings_.size() - 1), bytes_of(v));
  };
  in_place_.clear();
  for (const Input& in : g_.inputs) {
    put(in.value, bind(in.name, in.value, plan::Binding::Kind::input), row_major(g_.type(in.value).dims));
    bindings_.back().dims = sizes_.refs(g_.given_dims(in));
    bindings_.back().order.assign(in.order.begin(), in.order.end());
  }
  std::vector<plan::BufferId> bound(g_.outputs.size(), UINT32_MAX);
  if (output_derived_.empty()) {
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      if (g_.outputs[i].to == Output::To::caller) bound[i] = bind(g_.outputs[i].name, g_.outputs[i].value, plan::Binding::Kind::output);
    }
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    const ValueId leaf = written_[i];
    if (o.to == Output::To::weight) {
      put(leaf, bind(o.name, leaf, plan::Binding::Kind::state), row_major(g_.type(leaf).dims));
      bindings_.back().weight = leaves_.weight[leaf];
    } else if (o.to == Output::To::input) {
      bindings_[out_.buffers[storage_.places[leaf].buffer].index].written = true;
    }
  }
  for (const Weight& w : g_.weights) {
    if (storage_.places[w.value].buffer != UINT32_MAX) continue;  // state
    bool derived = leaves_.derived[w.value] != none_id;
    uint32_t index = derived ? leaves_.derived[w.value] : leaves_.weight[w.value];
    Dim bytes = derived ? Dim(derived_bytes_[index]) : bytes_of(w.value);
    put(w.value, leaf_buffer(derived ? Kind::derived : Kind::weight, index, bytes), row_major(g_.type(w.value).dims));
  }
  place_states();
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (!output_derived_.empty()) {  // the prepare function: outputs are derived tensors
      if (output_packed_[i]) continue;
      uint32_t d = output_derived_[i];
      put(o.value, leaf_buffer(Kind::derived, d, Dim(derived_bytes_[d])), row_major(g_.type(o.value).dims));
      continue;
    }
    // The first output made of a computed value is its memory; repeats, inputs and weights are copied at the end.
    if (bound[i] != UINT32_MAX && !is_leaf(o.value) && storage_.places[o.value].buffer == UINT32_MAX) put(o.value, bound[i], row_major(g_.type(o.value).dims));
  }
  place_concat_parts();
  for (ValueId v = 0; v < g_.values.size(); ++v) {
    if (storage_.stored[v] && storage_.places[v].buffer == UINT32_MAX) put(v, arena_buffer(bytes_of(v)), layout_of(v));
  }
}

void FunctionCompiler::place_states() {
  auto& places = storage_.places;
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || copied_.contains(i) || is_leaf(o.value) || places[o.value].buffer != UINT32_MAX) continue;
    BufferView leaf = places[written_[i]];
    // What it is an update of is made there too, version by version.
    for (ValueId v = o.value;;) {
      plan::Buffer entry = out_.buffers[leaf.buffer];
      out_.buffers.push_back(entry);
      auto buffer = static_cast<plan::BufferId>(out_.buffers.size() - 1);
      in_place_[i].push_back(buffer);
      places[v] = {buffer, leaf.dtype, leaf.layout};
      const Node& node = g_.producer(v);
      if (node.op != Op::update && node.op != Op::scatter && node.op != Op::scatter_along) break;
      ValueId base = node.in[0];
      if (is_leaf(base) || !storage_.stored[base] || places[base].buffer != UINT32_MAX) break;
      v = base;
    }
  }
}

// A part of a join that nobody placed yet is made right where the join wants it.
void FunctionCompiler::place_concat_parts() {
  auto& places = storage_.places;
  for (NodeId id = static_cast<NodeId>(g_.nodes.size()); id-- > 0;) {
    const Node& node = g_.nodes[id];
    if (node.op != Op::concat || !storage_.stored[node.out[0]]) continue;
    ValueId whole = node.out[0];
    if (places[whole].buffer == UINT32_MAX) {
      Dim bytes = product(g_.type(whole).dims) * Dim(static_cast<int64_t>(size_of(g_.type(whole).dtype)));
      places[whole] = {arena_buffer(bytes), g_.type(whole).dtype, row_major(g_.type(whole).dims)};
    }
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Dim start = 0;
    std::unordered_map<ValueId, size_t> times;
    for (ValueId part : node.in) ++times[part];
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      ValueId part = node.in[i];
      const Dims& dims = g_.type(part).dims;
      bool repeated = times[part] > 1;
      if (storage_.stored[part] && !is_leaf(part) && places[part].buffer == UINT32_MAX && !repeated && !alone_.contains(part)) {
        StridedLayout w = places[whole].layout;
        w.offset += w.strides[axis] * start;
        w.dims = dims;
        places[part] = {places[whole].buffer, g_.type(part).dtype, std::move(w)};
        emitted_parts_.insert({id, i});
      }
      start += dims[axis];
    }
  }
}

std::optional<BufferView> FunctionCompiler::resolve(ValueId v) const {
  if (storage_.stored[v]) return storage_.places[v];
  if (!is_plain_view(g_, v)) return std::nullopt;
  const Node& node = g_.producer(v);
  auto inner = resolve(node.in[0]);
  if (!inner) return std::nullopt;
  auto w = through(inner->layout, g_, node);
  if (!w) return std::nullopt;
  inner->layout = std::move(*w);
  return inner;
}

BufferView FunctionCompiler::require(ValueId v) const {
  if (auto place = resolve(v)) return *place;
  // The innermost value that stops the chain: computed but not stored, or the operand of a reshape without strides.
  for (ValueId at = v;;) {
    const Node& node = g_.producer(at);
    if (!is_plain_view(g_, at)) throw Cut{at};
    if (auto inner = resolve(node.in[0])) throw Cut{node.op == Op::reshape && !storage_.stored[node.in[0]] ? node.in[0] : at};
    at = node.in[0];
  }
}

plan::OperandView FunctionCompiler::view_of(const BufferView& place) {
  return {place.buffer, place.dtype, sizes_.ref(place.layout.offset), sizes_.refs(place.layout.dims), sizes_.refs(place.layout.strides)};
}

}  // namespace ingot::compile
