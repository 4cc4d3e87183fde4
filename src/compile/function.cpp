#include "compile/function.h"

#include <algorithm>

#include "backend/cpu/emitter.h"
#include "base/error.h"
#include "compile/writer.h"
#include "kernels/attention/attention_args.h"
#include "kernels/matmul/matmul_args.h"
#include "kernels/scan/scan_args.h"
#include "kernels/scatter/scatter_args.h"
#include "kernels/sort/sort_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

bool is_plain_view(const Graph& g, ValueId v) {
  const Node& n = g.producer(v);
  return n.op == Op::reshape || (n.op == Op::view && !n.attributes.map("map").fill);
}

Dims row_dims(const Window& w) { return w.dims; }

}  // namespace

FunctionCompiler::FunctionCompiler(const Graph& g, LeafPlaces leaves, std::vector<uint32_t> packed_operand, std::vector<uint32_t> output_derived,
                                   std::vector<bool> output_packed, const std::vector<int64_t>& derived_bytes)
    : g_(g),
      leaves_(std::move(leaves)),
      packed_operand_(std::move(packed_operand)),
      output_derived_(std::move(output_derived)),
      output_packed_(std::move(output_packed)),
      derived_bytes_(derived_bytes),
      users_(g.users()),
      uses_(g.values.size(), 0) {
  for (const Node& n : g.nodes) {
    for (ValueId v : n.in) ++uses_[v];
  }
  for (const Output& o : g.outputs) ++uses_[o.value];
}

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
        for (ValueId in : node.in) store_base(in);
        break;
      case Op::attention:
        for (size_t i = 0; i < 3; ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      case Op::join:
      case Op::update: stored[node.out[0]] = true; break;
      case Op::scatter:
      case Op::scatter_along:
        // The base is copied into the result, wherever it comes from.
        for (size_t i = 1; i < node.in.size(); ++i) store_base(node.in[i]);
        stored[node.out[0]] = true;
        break;
      default:
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
      if (several && (node.op == Op::matmul || cost(v) > 6)) layout_.stored[v] = true;
      if (node.op == Op::matmul && homes[v].empty()) layout_.stored[v] = true;
    }
    // The contexts in which this node's operands are computed.
    std::set<uint32_t> context;
    for (ValueId v : node.out) {
      if (!layout_.stored[v]) {
        context.insert(homes[v].begin(), homes[v].end());
      } else if (inlinable(node.op)) {
        auto [found, made] = layout_.root_of.try_emplace(v, 0);
        if (made) found->second = add_root({Root::Kind::value, v, v});
        context.insert(found->second);
      }
    }
    if (inlinable(node.op)) {
      for (size_t i = 0; i < node.in.size(); ++i) homes[node.in[i]].insert(context.begin(), context.end());
    } else if (node.op == Op::matmul && layout_.stored[node.out[0]]) {
      layout_.root_of[node.out[0]] = add_root({Root::Kind::value, node.out[0], node.out[0]});
    } else if (node.op == Op::attention && node.in.size() == 4) {
      uint32_t r = add_root({Root::Kind::mask, node.in[3], node.out[0]});
      layout_.part_root[{id, 3}] = r;
      homes[node.in[3]].insert(r);
    } else if (node.op == Op::join) {
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

// The window a stored value gets on a buffer of its own: row-major, unless a view chain ends in a reshape that only
// another order of axes can express (attention's heads before a projection).
Window FunctionCompiler::layout_of(ValueId v) const {
  Window plain = row_major(g_.type(v).dims);
  std::vector<NodeId> chain;
  for (ValueId at = v; uses_[at] == 1 && users_[at].size() == 1;) {
    const Node& user = g_.nodes[users_[at][0]];
    bool bijective = user.op == Op::view && is_bijective(user.attributes.map("map"), g_.type(at).dims);
    if ((!bijective && user.op != Op::reshape) || layout_.stored[user.out[0]]) break;
    chain.push_back(users_[at][0]);
    at = user.out[0];
  }
  // Forward with the plain window: if all views are expressible, nothing is to be gained.
  std::optional<Window> w = plain;
  size_t last = 0;
  for (size_t i = 0; i < chain.size() && w; ++i) {
    const Node& node = g_.nodes[chain[i]];
    w = node.op == Op::reshape ? through_reshape(*w, g_.type(node.out[0]).dims) : through_view(*w, node.attributes.map("map"));
    if (!w) last = i + 1;
  }
  if (w) return plain;
  Window back = row_major(g_.type(g_.nodes[chain[last - 1]].out[0]).dims);
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
  for (size_t b = 0; b < out_.buffers.size(); ++b) {
    if (out_.buffers[b].kind == kind && out_.buffers[b].index == index) return static_cast<plan::BufferId>(b);
  }
  out_.buffers.push_back({kind, index, sizes_.ref(bytes), 0, 0});
  return static_cast<plan::BufferId>(out_.buffers.size() - 1);
}

void FunctionCompiler::place_all() {
  using Kind = plan::Buffer::Kind;
  out_.bindings.clear();
  out_.buffers.clear();
  layout_.places.assign(g_.values.size(), {});
  auto bytes_of = [&](ValueId v) { return product(g_.type(v).dims) * Dim(static_cast<int64_t>(size_of(g_.type(v).dtype))); };
  auto put = [&](ValueId v, plan::BufferId b, Window w) { layout_.places[v] = {b, g_.type(v).dtype, std::move(w)}; };
  auto bind = [&](const std::string& name, ValueId v, plan::Binding::Kind kind) {
    plan::Binding b{name, g_.type(v).dtype, sizes_.refs(g_.type(v).dims), {}, kind};
    out_.bindings.push_back(std::move(b));
    return leaf_buffer(Kind::binding, static_cast<uint32_t>(out_.bindings.size() - 1), bytes_of(v));
  };
  in_place_.clear();
  for (const Input& in : g_.inputs) put(in.value, bind(in.name, in.value, plan::Binding::Kind::input), row_major(g_.type(in.value).dims));
  std::vector<plan::BufferId> bound(g_.outputs.size(), UINT32_MAX);
  if (output_derived_.empty()) {
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      if (g_.outputs[i].to == Output::To::caller) bound[i] = bind(g_.outputs[i].name, g_.outputs[i].value, plan::Binding::Kind::output);
    }
  }
  for (const Output& o : g_.outputs) {
    ValueId leaf = g_.written_by(o);
    if (o.to == Output::To::weight) {
      put(leaf, bind(o.name, leaf, plan::Binding::Kind::state), row_major(g_.type(leaf).dims));
      out_.bindings.back().weight = leaves_.weight[leaf];
    } else if (o.to == Output::To::input) {
      out_.bindings[out_.buffers[layout_.places[leaf].buffer].index].written = true;
    }
  }
  for (const Weight& w : g_.weights) {
    if (layout_.places[w.value].buffer != UINT32_MAX) continue;  // state
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
    if (bound[i] != UINT32_MAX && !is_leaf(o.value) && layout_.places[o.value].buffer == UINT32_MAX) put(o.value, bound[i], row_major(g_.type(o.value).dims));
  }
  place_join_parts();
  for (ValueId v = 0; v < g_.values.size(); ++v) {
    if (layout_.stored[v] && layout_.places[v].buffer == UINT32_MAX) put(v, arena_buffer(bytes_of(v)), layout_of(v));
  }
}

void FunctionCompiler::place_states() {
  auto& places = layout_.places;
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || copied_.contains(i) || is_leaf(o.value) || places[o.value].buffer != UINT32_MAX) continue;
    Place leaf = places[g_.written_by(o)];
    // What it is an update of is made there too, version by version.
    for (ValueId v = o.value;;) {
      plan::Buffer entry = out_.buffers[leaf.buffer];
      out_.buffers.push_back(entry);
      auto buffer = static_cast<plan::BufferId>(out_.buffers.size() - 1);
      in_place_[i].push_back(buffer);
      places[v] = {buffer, leaf.dtype, leaf.window};
      const Node& node = g_.producer(v);
      if (node.op != Op::update && node.op != Op::scatter && node.op != Op::scatter_along) break;
      ValueId base = node.in[0];
      if (is_leaf(base) || !layout_.stored[base] || places[base].buffer != UINT32_MAX) break;
      v = base;
    }
  }
}

bool FunctionCompiler::same_memory(const Place& a, const Place& b) const {
  const plan::Buffer &x = out_.buffers[a.buffer], &y = out_.buffers[b.buffer];
  bool buffer = a.buffer == b.buffer || (x.kind == y.kind && x.kind != plan::Buffer::Kind::arena && x.index == y.index);
  return buffer && a.window.dims == b.window.dims && a.window.offset == b.window.offset && a.window.strides == b.window.strides;
}

// State that is written in place while somebody still reads what was there: it is copied instead. True when there is such a one.
bool FunctionCompiler::find_conflicts() {
  bool found = false;
  plan::SizeRef one = sizes_.ref(Dim(1));
  auto same_elements = [&](const plan::OperandView& a, const plan::OperandView& b) {
    bool same = a.offset == b.offset && a.dims == b.dims;
    for (size_t d = 0; same && d < a.dims.size(); ++d) same = a.dims[d] == one || a.strides[d] == b.strides[d];
    return same;
  };
  for (const auto& [i, versions] : in_place_) {
    for (size_t n = 0; n < versions.size(); ++n) {
      // Once version n is begun, nobody may read an older one.
      std::vector<plan::BufferId> older(versions.begin() + static_cast<int64_t>(n) + 1, versions.end());
      older.push_back(layout_.places[g_.written_by(g_.outputs[i])].buffer);
      bool begun = false;
      for (const plan::Step& s : out_.steps) {
        size_t reads = s.operands.size() - s.writes;
        const plan::OperandView* written = nullptr;
        for (size_t k = reads; k < s.operands.size(); ++k) {
          if (s.operands[k].buffer == versions[n]) written = &s.operands[k];
        }
        for (size_t k = 0; k < reads; ++k) {
          const plan::OperandView& o = s.operands[k];
          if ((!begun && written == nullptr) || std::find(older.begin(), older.end(), o.buffer) == older.end()) continue;
          // An element may be read by the body that writes it: the read comes first.
          bool elementwise = !begun && written != nullptr && (s.kernel == "fused" || (s.kernel == "matmul" && k >= 2));
          if (elementwise && same_elements(o, *written)) continue;
          copied_.insert(i);
          found = true;
        }
        begun = begun || written != nullptr;
      }
    }
  }
  return found;
}

// A part of a join that nobody placed yet is made right where the join wants it.
void FunctionCompiler::place_join_parts() {
  auto& places = layout_.places;
  for (NodeId id = static_cast<NodeId>(g_.nodes.size()); id-- > 0;) {
    const Node& node = g_.nodes[id];
    if (node.op != Op::join) continue;
    ValueId whole = node.out[0];
    if (places[whole].buffer == UINT32_MAX) {
      Dim bytes = product(g_.type(whole).dims) * Dim(static_cast<int64_t>(size_of(g_.type(whole).dtype)));
      places[whole] = {arena_buffer(bytes), g_.type(whole).dtype, row_major(g_.type(whole).dims)};
    }
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Dim start = 0;
    for (ValueId part : node.in) {
      const Dims& dims = g_.type(part).dims;
      bool repeated = std::count(node.in.begin(), node.in.end(), part) > 1;
      if (layout_.stored[part] && !is_leaf(part) && places[part].buffer == UINT32_MAX && !repeated) {
        Window w = places[whole].window;
        w.offset += w.strides[axis] * start;
        w.dims = dims;
        places[part] = {places[whole].buffer, g_.type(part).dtype, std::move(w)};
        emitted_parts_.insert(part);
      }
      start += dims[axis];
    }
  }
}

std::optional<Place> FunctionCompiler::resolve(ValueId v) const {
  if (layout_.stored[v]) return layout_.places[v];
  if (!is_plain_view(g_, v)) return std::nullopt;
  const Node& node = g_.producer(v);
  auto inner = resolve(node.in[0]);
  if (!inner) return std::nullopt;
  auto w = node.op == Op::reshape ? through_reshape(inner->window, g_.type(v).dims) : through_view(inner->window, node.attributes.map("map"));
  if (!w) return std::nullopt;
  inner->window = std::move(*w);
  return inner;
}

Place FunctionCompiler::require(ValueId v) const {
  if (auto place = resolve(v)) return *place;
  // The innermost value that stops the chain: computed but not stored, or the operand of a reshape without strides.
  for (ValueId at = v;;) {
    const Node& node = g_.producer(at);
    if (!is_plain_view(g_, at)) throw Cut{at};
    if (auto inner = resolve(node.in[0])) throw Cut{node.op == Op::reshape && !layout_.stored[node.in[0]] ? node.in[0] : at};
    at = node.in[0];
  }
}

plan::OperandView FunctionCompiler::view_of(const Place& place) {
  return {place.buffer, place.dtype, sizes_.ref(place.window.offset), sizes_.refs(place.window.dims), sizes_.refs(place.window.strides)};
}

// The body's sizes, then the extents of its domain.
std::vector<plan::SizeRef> FunctionCompiler::fused_sizes(const Dims& sizes, const backend::FusedBody& body) {
  std::vector<plan::SizeRef> out = sizes_.refs(sizes);
  for (const Dims* dims : {&body.outer, &body.row}) {
    for (plan::SizeRef r : sizes_.refs(*dims)) out.push_back(r);
  }
  return out;
}

void FunctionCompiler::push(plan::Step step, OriginId origin) {
  step.origin = origin;
  out_.steps.push_back(std::move(step));
}

namespace {

// [batch.., M, K] or [batch.., K, N] as the operand of a product with the given batch: missing and size-1 axes get stride 0.
Place with_batch(Place place, const Dims& batch) {
  Window& w = place.window;
  size_t have = w.dims.size() - 2;
  for (size_t i = 0; i < have; ++i) {
    if (w.dims[i] == Dim(1)) w.strides[i] = 0;
  }
  w.strides.insert(w.strides.begin(), batch.size() - have, Dim(0));
  Dims dims = batch;
  dims.push_back(w.dims[w.dims.size() - 2]);
  dims.push_back(w.dims.back());
  w.dims = std::move(dims);
  return place;
}

// Joins the last batch axis with M where every window allows it, so that a product by one matrix is one tall product.
bool merge_rows(Place& a, std::vector<Place>& operands) {
  Window& w = a.window;
  size_t m = w.dims.size() - 2, b = m - 1;
  auto mergeable = [&](const Window& x, size_t outer, size_t inner, const Dim& extent) {
    if (x.strides[outer] == Dim(0) && x.strides[inner] == Dim(0)) return true;
    return x.strides[outer] == x.strides[inner] * extent;
  };
  Dim extent = w.dims[m];
  if (!mergeable(w, b, m, extent)) return false;
  for (const Place& p : operands) {
    if (!mergeable(p.window, b, m, extent)) return false;
  }
  auto merge = [&](Window& x) {
    bool uniform = x.strides[b] == Dim(0) && x.strides[m] == Dim(0);
    x.dims[m] = uniform ? Dim(1) : x.dims[b] * x.dims[m];
    x.dims.erase(x.dims.begin() + static_cast<int64_t>(b));
    x.strides.erase(x.strides.begin() + static_cast<int64_t>(b));
  };
  merge(w);
  for (Place& p : operands) merge(p.window);
  return true;
}

void merge_domain(backend::FusedBody& body) {
  // outer = [.., b, m]: b and m become one; no index instruction may name them.
  Dim joined = body.outer[body.outer.size() - 2] * body.outer.back();
  body.outer.pop_back();
  body.outer.back() = joined;
  auto gone = static_cast<uint32_t>(body.outer.size());
  for (backend::Instruction& i : body.code) {
    if (i.kind == backend::Instruction::Kind::index && i.axis > gone) --i.axis;
  }
}

bool names_rows(const backend::FusedBody& body) {
  auto m = static_cast<uint32_t>(body.outer.size() - 1);
  for (const backend::Instruction& i : body.code) {
    if (i.kind == backend::Instruction::Kind::index && (i.axis == m || i.axis + 1 == m)) return true;
    if (i.kind == backend::Instruction::Kind::load && (!i.lower.empty() || !i.in.empty())) return true;
  }
  return false;
}

}  // namespace

void FunctionCompiler::emit_root(uint32_t r) {
  const Root& root = layout_.roots[r];
  Place target = layout_.places[root.target];
  const Node& node = g_.producer(root.target);
  bool itself = root.kind == Root::Kind::value;
  if (root.kind == Root::Kind::update_base) {
    auto have = resolve(root.value);
    if (have && same_memory(*have, target)) return;  // written in place
  }
  if (root.kind == Root::Kind::join_part) {
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    Dim start = 0;
    for (uint32_t i = 0; i < root.part; ++i) start += g_.type(node.in[i]).dims[axis];
    target.window.offset += target.window.strides[axis] * start;
    target.window.dims = g_.type(root.value).dims;
  } else if (root.kind == Root::Kind::update_value) {
    target.window = *through_view(target.window, node.attributes.map("map"));
  }
  WrittenBody written = write_root(*this, root.value, target, itself);
  plan::Step step;
  step.label = written.label;
  step.writes = static_cast<uint32_t>(written.body.stores.size());
  if (written.anchor == none_id) {
    backend::cpu::Emitted code = backend::cpu::emit(written.body);
    step.kernel = "fused";
    step.constants = std::move(code.code);
    for (const Place& p : written.operands) step.operands.push_back(view_of(p));
    step.sizes = fused_sizes(code.sizes, written.body);
    return push(std::move(step), node.origin);
  }
  NodeId id = g_.values[written.anchor].producer;
  const Node& anchor = g_.nodes[id];
  Dims batch(g_.type(written.anchor).dims.begin(), g_.type(written.anchor).dims.end() - 2);
  Place a = with_batch(require(anchor.in[0]), batch);
  kernels::MatmulArgs args;
  args.packed = id < packed_operand_.size() && packed_operand_[id] != none_id;
  Place b;
  Dim k = a.window.dims.back(), n = g_.type(written.anchor).dims.back();
  if (args.packed) {
    uint32_t d = packed_operand_[id];
    int64_t floats = derived_bytes_[d] / 4;
    b = {leaf_buffer(plan::Buffer::Kind::derived, d, Dim(derived_bytes_[d])), DType::f32, {{Dim(floats)}, 0, {Dim(1)}}};
    while (!batch.empty() && !names_rows(written.body) && merge_rows(a, written.operands)) {
      merge_domain(written.body);
      batch.pop_back();
    }
  } else {
    b = with_batch(require(anchor.in[1]), batch);
  }
  backend::cpu::Emitted code = backend::cpu::emit(written.body);
  args.batch_rank = static_cast<uint8_t>(batch.size());
  args.body = code.code;
  step.kernel = "matmul";
  step.constants = kernels::serialise(args);
  Dim m = a.window.dims[a.window.dims.size() - 2];
  step.operands = {view_of(a), view_of(b)};
  for (const Place& p : written.operands) step.operands.push_back(view_of(p));
  step.sizes = {sizes_.ref(m), sizes_.ref(n), sizes_.ref(k)};
  for (plan::SizeRef s : sizes_.refs(code.sizes)) step.sizes.push_back(s);
  push(std::move(step), anchor.origin);
}

void FunctionCompiler::emit_attention(NodeId n) {
  const Node& node = g_.nodes[n];
  const Dims& out = g_.type(node.out[0]).dims;
  Dims batch(out.begin(), out.end() - 2);
  Place q = with_batch(require(node.in[0]), batch), k = with_batch(require(node.in[1]), batch), v = with_batch(require(node.in[2]), batch);
  const Dim &s = q.window.dims[batch.size()], &d = q.window.dims.back(), &t = k.window.dims[batch.size()], &e = v.window.dims.back();
  kernels::AttentionArgs args;
  args.scale = node.attributes.number("scale");
  args.causal = node.attributes.boolean("causal");
  args.batch_rank = static_cast<uint8_t>(batch.size());
  plan::Step step;
  step.kernel = "attention";
  step.label = "attention";
  step.writes = 1;
  step.operands = {view_of(q), view_of(k), view_of(v)};
  step.sizes = {sizes_.ref(s), sizes_.ref(t), sizes_.ref(d), sizes_.ref(e)};
  backend::cpu::Emitted code;
  if (node.in.size() == 4) {
    Dims scores = batch;
    scores.push_back(s);
    scores.push_back(t);
    WrittenBody written = write_mask(*this, node.in[3], scores, g_.type(node.out[0]).dtype == DType::f64 ? DType::f64 : DType::f32);
    code = backend::cpu::emit(written.body);
    args.mask = code.code;
    for (const Place& p : written.operands) step.operands.push_back(view_of(p));
    for (plan::SizeRef r : sizes_.refs(code.sizes)) step.sizes.push_back(r);
    step.label += written.label == "copy" ? " + mask" : " + mask(" + written.label + ")";
  }
  if (args.causal) step.label += ", causal";
  step.constants = kernels::serialise(args);
  step.operands.push_back(view_of(with_batch(layout_.places[node.out[0]], batch)));
  push(std::move(step), node.origin);
}

namespace {

// A window of the given dims over a value that broadcasts to them.
Place broadcast_to(Place place, const Dims& dims) {
  Window& w = place.window;
  for (size_t i = 0; i < w.dims.size(); ++i) {
    if (w.dims[i] == Dim(1)) w.strides[i] = 0;
  }
  w.strides.insert(w.strides.begin(), dims.size() - w.dims.size(), Dim(0));
  w.dims = dims;
  return place;
}

kernels::ScatterArgs::Kind scatter_kind(const std::string& kind) {
  using Kind = kernels::ScatterArgs::Kind;
  return kind == "set" ? Kind::set : kind == "add" ? Kind::add : kind == "mul" ? Kind::mul : kind == "min" ? Kind::min : Kind::max;
}

kernels::ScanArgs::Kind scan_kind(const std::string& kind) {
  using Kind = kernels::ScanArgs::Kind;
  return kind == "sum" ? Kind::sum : kind == "prod" ? Kind::prod : kind == "max" ? Kind::max : kind == "min" ? Kind::min : Kind::logsumexp;
}

}  // namespace

void FunctionCompiler::emit_kernel(NodeId n) {
  const Node& node = g_.nodes[n];
  const Attributes& a = node.attributes;
  plan::Step step;
  step.label = std::string(name_of(node.op));
  step.writes = static_cast<uint32_t>(node.out.size());
  auto operand = [&](const Place& place) { step.operands.push_back(view_of(place)); };
  switch (node.op) {
    case Op::scan: {
      step.kernel = "scan";
      step.constants = kernels::serialise(kernels::ScanArgs{scan_kind(a.string("kind")), static_cast<uint8_t>(a.integer("axis"))});
      operand(require(node.in[0]));
      break;
    }
    case Op::sort:
    case Op::topk: {
      step.kernel = "sort";
      bool down = a.boolean(node.op == Op::sort ? "descending" : "largest");
      int64_t axis = g_.type(node.in[0]).dims.empty() ? 0 : a.integer("axis");
      step.constants = kernels::serialise(kernels::SortArgs{static_cast<uint8_t>(axis), down});
      operand(require(node.in[0]));
      break;
    }
    case Op::scatter: {
      emit_root(layout_.part_root.at({n, 0}));
      step.kernel = "scatter";
      kernels::ScatterArgs args;
      args.kind = scatter_kind(a.string("kind"));
      args.wrap = true;
      args.position = static_cast<uint8_t>(a.integer("position"));
      for (int64_t axis : a.integers("axes")) args.axes.push_back(static_cast<uint8_t>(axis));
      step.constants = kernels::serialise(args);
      Dims indices;
      for (size_t i = 2; i < node.in.size(); ++i) indices = broadcast(indices, g_.type(node.in[i]).dims, g_.symbols);
      operand(require(node.in[1]));
      for (size_t i = 2; i < node.in.size(); ++i) operand(broadcast_to(require(node.in[i]), indices));
      break;
    }
    case Op::scatter_along: {
      emit_root(layout_.part_root.at({n, 0}));
      step.kernel = "scatter_along";
      kernels::ScatterArgs args;
      args.kind = scatter_kind(a.string("kind"));
      args.axes = {static_cast<uint8_t>(a.integer("axis"))};
      step.constants = kernels::serialise(args);
      Place index = require(node.in[1]), updates = require(node.in[2]);
      updates.window.dims = index.window.dims;
      operand(index);
      operand(updates);
      break;
    }
    default: fail(Code::unsupported, "the CPU backend has no kernel for {}", name_of(node.op));
  }
  for (ValueId v : node.out) operand(layout_.places[v]);
  push(std::move(step), node.origin);
}

void FunctionCompiler::emit_pack(ValueId v, uint32_t derived) {
  Place b = require(v);
  Window& w = b.window;
  while (w.dims.size() > 2) {  // leading axes of size 1
    w.dims.erase(w.dims.begin());
    w.strides.erase(w.strides.begin());
  }
  plan::Step step;
  step.kernel = "matmul_pack";
  step.label = "pack";
  step.writes = 1;
  int64_t floats = derived_bytes_[derived] / 4;
  Place packed{leaf_buffer(plan::Buffer::Kind::derived, derived, Dim(derived_bytes_[derived])), DType::f32, {{Dim(floats)}, 0, {Dim(1)}}};
  step.operands = {view_of(b), view_of(packed)};
  step.sizes = {sizes_.ref(w.dims[0]), sizes_.ref(w.dims[1])};
  push(std::move(step), none_id);
}

void FunctionCompiler::emit_node(NodeId n) {
  const Node& node = g_.nodes[n];
  if (node.op == Op::attention) return emit_attention(n);
  if (node.op == Op::join) {
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      if (emitted_parts_.contains(node.in[i])) continue;  // made in place
      emit_root(layout_.part_root.at({n, i}));
    }
    return;
  }
  if (node.op == Op::update) {
    for (uint32_t i = 0; i < 2; ++i) emit_root(layout_.part_root.at({n, i}));
    return;
  }
  bool leaf = node.op == Op::input || node.op == Op::weight;
  if (leaf) return;
  if (inlinable(node.op) || node.op == Op::matmul) {
    for (ValueId v : node.out) {
      if (layout_.stored[v]) emit_root(layout_.root_of.at(v));
    }
    return;
  }
  emit_kernel(n);
}

void FunctionCompiler::liveness() {
  for (uint32_t s = 0; s < out_.steps.size(); ++s) {
    for (const plan::OperandView& o : out_.steps[s].operands) {
      plan::Buffer& b = out_.buffers[o.buffer];
      if (b.last == 0 && b.first == 0) b.first = s + 1;  // shifted by one while 0 means "not seen"
      b.last = s + 1;
    }
  }
  for (plan::Buffer& b : out_.buffers) {
    if (b.kind != plan::Buffer::Kind::arena) {
      b.first = b.last = 0;
    } else if (b.last > 0) {
      --b.first;
      --b.last;
    }
  }
}

void FunctionCompiler::copy(ValueId v, const Place& target, std::string label) {
  WrittenBody written = write_root(*this, v, target, false);
  backend::cpu::Emitted code = backend::cpu::emit(written.body);
  plan::Step step{"fused", {}, fused_sizes(code.sizes, written.body), std::move(code.code), none_id, std::move(label), 1};
  for (const Place& p : written.operands) step.operands.push_back(view_of(p));
  push(std::move(step), none_id);
}

void FunctionCompiler::copy_outputs() {
  // To the caller: inputs, weights and repeats of another output.
  uint32_t binding = static_cast<uint32_t>(g_.inputs.size());
  for (const Output& o : g_.outputs) {
    if (o.to != Output::To::caller) continue;
    const Place& made = layout_.places[o.value];
    const plan::Buffer& buffer = out_.buffers[made.buffer];
    if (buffer.kind != plan::Buffer::Kind::binding || buffer.index != binding) {
      copy(o.value, {leaf_buffer(plan::Buffer::Kind::binding, binding, 0), made.dtype, row_major(row_dims(made.window))}, "copy");
    }
    ++binding;
  }
  // To state. What is read from memory that another one of these writes is put aside first.
  auto written_leaf = [&](ValueId v) { return std::any_of(g_.outputs.begin(), g_.outputs.end(), [&](const Output& o) { return g_.written_by(o) == v; }); };
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i) || !written_leaf(o.value) || out_.buffers[layout_.places[o.value].buffer].kind == plan::Buffer::Kind::arena) continue;
    const Type& t = g_.type(o.value);
    Place aside{arena_buffer(product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype)))), t.dtype, row_major(t.dims)};
    copy(o.value, aside, "put aside");
    layout_.places[o.value] = aside;
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const Output& o = g_.outputs[i];
    if (o.to == Output::To::caller || in_place_.contains(i)) continue;
    ValueId leaf = g_.written_by(o);
    for (uint32_t b = 0; b < out_.bindings.size(); ++b) {
      bool input = o.to == Output::To::input;
      if (out_.bindings[b].name != o.name || (out_.bindings[b].kind == plan::Binding::Kind::input) != input || (!input && out_.bindings[b].kind != plan::Binding::Kind::state)) continue;
      const Type& t = g_.type(leaf);
      copy(o.value, {leaf_buffer(plan::Buffer::Kind::binding, b, product(t.dims) * Dim(static_cast<int64_t>(size_of(t.dtype)))), t.dtype, row_major(t.dims)}, "write " + o.name);
      break;
    }
  }
}

plan::Function FunctionCompiler::run(std::string name) {
  for (;;) {
    size_t before = cuts_.size();
    out_ = {};
    sizes_ = {};
    emitted_parts_.clear();
    decide();
    place_all();
    for (NodeId n = 0; n < g_.nodes.size(); ++n) {
      try {
        emit_node(n);
      } catch (const Cut& cut) {
        // Go on with the rest, so that one pass finds many cuts.
        if (layout_.stored[cut.value]) fail(Code::internal, "value {} ({}) is stored, but has no window", cut.value, name_of(g_.producer(cut.value).op));
        cuts_.insert(cut.value);
      }
    }
    if (cuts_.size() != before) continue;
    if (output_derived_.empty()) copy_outputs();
    if (!find_conflicts()) break;
  }
  for (size_t i = 0; i < output_packed_.size(); ++i) {
    if (output_packed_[i]) emit_pack(g_.outputs[i].value, output_derived_[i]);
  }
  liveness();
  out_.name = std::move(name);
  for (const Symbol& s : g_.symbols) out_.symbols.push_back({s.name, s.min, s.opt, s.max});
  for (const Check& c : g_.checks) {
    out_.checks.push_back({sizes_.ref(c.left), sizes_.ref(c.right), c.kind == Check::equal, c.origin, c.why});
  }
  out_.sizes = sizes_.take();
  return std::move(out_);
}

}  // namespace ingot::compile
