// The steps that make stored values.
#include "compile/function.h"

#include <algorithm>

#include "base/error.h"
#include "compile/writer.h"
#include "kernels/fused/run/fused_args.h"
#include "kernels/scan/run/scan_args.h"
#include "kernels/scatter/run/scatter_args.h"
#include "kernels/sort/run/sort_args.h"

namespace ingot::compile {

using namespace ir;

namespace {

enum class Merge : uint8_t { done, rows_apart, body_apart };

// Joins the last batch axis with M where every layout allows it, so that a product by one matrix is one tall product.
Merge merge_rows(Rows& a, std::vector<BufferView>& operands, size_t batch_rank) {
  StridedLayout& w = a.place.layout;
  size_t m = batch_rank, b = m - 1;
  // What there is one of is not stepped along.
  const Dims& result = operands.back().layout.dims;
  const bool one_batch = result[b] == Dim(1), one_row = !a.map && result[m] == Dim(1);
  auto mergeable = [&](const StridedLayout& x, const Dim& extent) {
    if (one_batch || one_row || (x.strides[b] == Dim(0) && x.strides[m] == Dim(0))) return true;
    return x.strides[b] == x.strides[m] * extent;
  };
  Dim extent = a.map ? Dim(1) : w.dims[m];
  for (size_t i = 0; a.map && i < a.m_rank; ++i) extent *= a.map->dims[m + i];
  if (!a.map && !mergeable(w, extent)) return Merge::rows_apart;
  for (const BufferView& p : operands) {
    if (!mergeable(p.layout, extent)) return Merge::body_apart;
  }
  auto merge = [&](StridedLayout& x) {
    // The rows of A and of the result are counted even where they repeat or are empty; what the body reads has size 1 where it repeats.
    bool repeats = &x != &w && &x != &operands.back().layout && x.strides[b] == Dim(0) && x.strides[m] == Dim(0);
    x.dims[m] = repeats ? Dim(1) : x.dims[b] * x.dims[m];
    if (one_row && !one_batch) x.strides[m] = x.strides[b];
    x.dims.erase(x.dims.begin() + static_cast<int64_t>(b));
    x.strides.erase(x.strides.begin() + static_cast<int64_t>(b));
  };
  if (a.map) {
    ++a.m_rank;
  } else {
    merge(w);
  }
  for (BufferView& p : operands) merge(p.layout);
  return Merge::done;
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

// Axes of size 1 that nothing names go, where a body has more axes than a kernel counts.
void leave_out_ones(WrittenBody& written) {
  backend::FusedBody& body = written.body;
  auto named = [&](size_t axis) {
    return std::any_of(body.code.begin(), body.code.end(), [&](const backend::Instruction& i) {
      if (i.kind == backend::Instruction::Kind::index) return i.axis == axis;
      return !i.lower.empty() && (!(i.lower[axis] == Dim(0)) || !(written.operands[i.operand].layout.dims[axis] == Dim(1)));
    });
  };
  for (size_t axis = body.outer.size() + body.row.size(); axis-- > 0 && body.outer.size() + body.row.size() > kernels::max_domain_rank;) {
    const bool of_row = axis >= body.outer.size();
    std::vector<Dim>& dims = of_row ? body.row : body.outer;
    const auto at = static_cast<int64_t>(of_row ? axis - body.outer.size() : axis), whole = static_cast<int64_t>(axis);
    if (!(dims[static_cast<size_t>(at)] == Dim(1)) || (of_row && dims.size() == 1) || named(axis)) continue;
    dims.erase(dims.begin() + at);
    for (BufferView& p : written.operands) {
      p.layout.dims.erase(p.layout.dims.begin() + whole);
      p.layout.strides.erase(p.layout.strides.begin() + whole);
    }
    for (backend::Instruction& i : body.code) {
      if (i.kind == backend::Instruction::Kind::index && i.axis > axis) --i.axis;
      if (!i.lower.empty()) i.lower.erase(i.lower.begin() + whole);
      if (!i.step.empty()) i.step.erase(i.step.begin() + whole);
    }
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
  const Root& root = storage_.roots[r];
  BufferView target = storage_.places[root.target];
  const Node& node = g_.producer(root.target);
  bool itself = root.kind == Root::Kind::value;
  if (root.kind == Root::Kind::update_base) {
    auto have = resolve(root.value);
    if (have && same_memory(*have, target)) return;  // written in place
  }
  if (root.kind == Root::Kind::concat_part) {
    auto axis = static_cast<size_t>(node.attributes.integer("axis"));
    target.layout.offset += target.layout.strides[axis] * root.start;
    target.layout.dims = g_.type(root.value).dims;
  } else if (root.kind == Root::Kind::update_value) {
    target.layout = *through_view(target.layout, node.attributes.map("map"));
  }
  WrittenBody written = write_root(*this, root.value, target, itself);
  if (written.anchor == none_id) {
    emit_body(std::move(written), node.origin);
  } else {
    g_.producer(written.anchor).op == Op::matmul ? emit_product(std::move(written)) : emit_depthwise_conv(std::move(written));
  }
}

void FunctionCompiler::emit_body(WrittenBody written, OriginId origin) {
  leave_out_ones(written);
  auto writes = static_cast<uint32_t>(written.body.stores.size());
  push(step_of(emitter_.fused(written.body, layouts_of(written.operands)), std::move(written.label), writes, written.operands), origin);
}

void FunctionCompiler::emit_product(WrittenBody written) {
  NodeId id = g_.values[written.anchor].producer;
  const Node& anchor = g_.nodes[id];
  Dims batch(g_.type(written.anchor).dims.begin(), g_.type(written.anchor).dims.end() - 2);
  std::optional<WrittenBody> made;
  if (makes_row(anchor)) made = write_row(*this, anchor.in[0]);
  const Type& left = g_.type(anchor.in[0]);
  Rows a = made ? Rows{with_batch({UINT32_MAX, left.dtype, row_major(left.dims)}, batch), std::nullopt} : rows_of(anchor.in[0], batch);
  BufferView b;
  std::vector<BufferView> beside;
  const std::optional<ValueId> apart = this->apart(anchor);
  backend::Product product;
  product.type = left.dtype;
  product.packed = id < packed_operand_.size() && packed_operand_[id] != none_id;
  if (product.packed) {
    uint32_t d = packed_operand_[id];
    const DType type = g_.type(anchor.in[1]).dtype;
    const int64_t elements = derived_bytes_[d] / static_cast<int64_t>(size_of(type));
    b = {leaf_buffer(plan::Buffer::Kind::derived, d, Dim(derived_bytes_[d])), type, {{Dim(elements)}, {Dim(1)}}};
  } else if (apart) {
    for (ValueId part : g_.producer(*apart).in) {
      beside.push_back(require(part));
      std::swap(beside.back().layout.dims[0], beside.back().layout.dims[1]);
      std::swap(beside.back().layout.strides[0], beside.back().layout.strides[1]);
    }
    b = with_batch(beside.front(), batch);
    beside.erase(beside.begin());
  } else {
    b = with_batch(require(anchor.in[1]), batch);
  }
  // What is stored already cannot be stored otherwise.
  auto other = [&](ValueId v) { return !storage_.stored[v]; };
  // A product by one matrix is one tall product; rows that lie in another order (a batch behind the sequence) are stored in this one.
  auto one_matrix = [&] { return product.packed || b.layout.strides[batch.size() - 1] == Dim(0); };
  while (!batch.empty() && one_matrix() && !names_rows(written.body)) {
    Merge merged = merge_rows(a, written.operands, batch.size());
    if (merged == Merge::rows_apart && other(anchor.in[0])) throw Cut{anchor.in[0]};
    if (merged != Merge::done) break;
    merge_domain(written.body);
    if (!product.packed) {
      b.layout.dims.erase(b.layout.dims.begin() + static_cast<int64_t>(batch.size()) - 1);
      b.layout.strides.erase(b.layout.strides.begin() + static_cast<int64_t>(batch.size()) - 1);
    }
    batch.pop_back();
  }
  // Nothing but the body behind keeps the batch apart.
  if ((made || written.halves || apart) && !batch.empty() && other(written.anchor)) throw Cut{written.anchor};
  product.batch_rank = batch.size();
  product.a = layouts_of({a.place})[0];
  product.map = a.map;
  product.m_rank = a.m_rank;
  product.b = layouts_of({b})[0];
  product.beside = layouts_of(beside);
  product.halves = written.halves;
  if (made) {
    product.made = &made->body;
    product.made_of = layouts_of(made->operands);
  }
  // What prepare makes is written while it runs.
  auto constant = [&](const BufferView& p) {
    const plan::Buffer::Kind where = out_.buffers[p.buffer].kind;
    return where == plan::Buffer::Kind::weight || (where == plan::Buffer::Kind::derived && output_derived_.empty());
  };
  product.constant = constant(b) && std::all_of(beside.begin(), beside.end(), constant);
  backend::ProductAnswer answer = emitter_.product(product, written.body, layouts_of(written.operands));
  using Answer = backend::ProductAnswer;
  // What has to be stored for a product that neither makes its row nor follows a map.
  const ValueId instead = made ? base_of(anchor.in[0]) : a.copied;
  if (instead != none_id && (answer.kind == Answer::copy_a || answer.kind == Answer::refused)) throw Cut{instead};
  if (answer.kind == Answer::copy_a && other(anchor.in[0])) throw Cut{anchor.in[0]};
  const ValueId right = apart.value_or(anchor.in[1]);
  if (answer.kind == Answer::copy_b && other(right)) throw Cut{right};
  if (answer.kind != Answer::taken && other(written.anchor)) throw Cut{written.anchor};
  if (instead != none_id && answer.kind != Answer::taken) throw Cut{instead};
  if (apart && answer.kind != Answer::taken) throw Cut{*apart};
  if (answer.kind != Answer::taken) return emit_product_by_sums(written, a.place, b);
  std::vector<BufferView> operands{std::move(a.place)};
  if (made) {
    made->operands.pop_back();
    operands = std::move(made->operands);
    written.label = made->label + " + " + written.label;
  }
  operands.push_back(std::move(b));
  operands.insert(operands.end(), beside.begin(), beside.end());
  auto writes = static_cast<uint32_t>(written.body.stores.size());
  operands.insert(operands.end(), written.operands.begin(), written.operands.end());
  push(step_of(std::move(answer.step), std::move(written.label), writes, operands), anchor.origin);
}

// Any product as a fused body: rows along K.
void FunctionCompiler::emit_product_by_sums(const WrittenBody& written, const BufferView& a, const BufferView& b) {
  const BufferView& target = written.operands.back();
  size_t batch = a.layout.dims.size() - 2;
  WrittenBody sums;
  sums.label = "matmul by sums";
  backend::FusedBody& body = sums.body;
  body.outer = target.layout.dims;
  body.row = {a.layout.dims.back()};
  auto over = [&](const BufferView& place, bool left) {
    BufferView p = place;
    StridedLayout& w = p.layout;
    const Dim along = left ? w.strides[batch + 1] : w.strides[batch];
    Dim rows = left ? w.strides[batch] : Dim(0), columns = left ? Dim(0) : w.strides[batch + 1];
    w.strides.resize(batch);
    w.strides.insert(w.strides.end(), {rows, columns, along});
    w.dims = body.outer;
    w.dims.push_back(body.row[0]);
    for (size_t d = 0; d < w.dims.size(); ++d) {
      if (w.strides[d] == Dim(0)) w.dims[d] = 1;
    }
    return p;
  };
  DType type = compute_type(target.dtype);
  auto add = [&](backend::Instruction i) {
    i.dtype = type;
    body.code.push_back(std::move(i));
    return static_cast<backend::Reg>(body.code.size() - 1);
  };
  backend::Instruction load{}, times{}, sum{};
  load.kind = backend::Instruction::Kind::load;
  backend::Reg x = add(load);
  load.operand = 1;
  backend::Reg y = add(load);
  times.kind = backend::Instruction::Kind::map;
  times.op = Op::mul;
  times.in = {x, y};
  sum.kind = backend::Instruction::Kind::reduce;
  sum.reduction = backend::Reduction::sum;
  sum.in = {add(times)};
  backend::Reg result = add(sum);
  BufferView store = target;
  store.layout.dims.push_back(1);
  store.layout.strides.push_back(0);
  body.operands = {a.dtype, b.dtype, target.dtype};
  body.stores = {{2, result}};
  sums.operands = {over(a, true), over(b, false), std::move(store)};
  emit_body(std::move(sums), g_.producer(written.anchor).origin);
}

void FunctionCompiler::emit_attention(NodeId n) {
  const Node& node = g_.nodes[n];
  const Dims& out = g_.type(node.out[0]).dims;
  Dims batch(out.begin(), out.end() - 2);
  BufferView q = with_batch(require(node.in[0]), batch), k = with_batch(require(node.in[1]), batch), v = with_batch(require(node.in[2]), batch);
  backend::Attention site;
  site.scale = node.attributes.number("scale");
  site.causal = node.attributes.boolean("causal");
  site.batch_rank = batch.size();
  site.s = q.layout.dims[batch.size()];
  site.t = k.layout.dims[batch.size()];
  site.d = q.layout.dims.back();
  site.e = v.layout.dims.back();
  std::string label = "attention";
  WrittenBody mask;
  if (node.in.size() == 4) {
    Dims scores = batch;
    scores.push_back(site.s);
    scores.push_back(site.t);
    mask = write_mask(*this, node.in[3], scores, g_.type(node.out[0]).dtype == DType::f64 ? DType::f64 : DType::f32);
    label += mask.label == "copy" ? " + mask" : " + mask(" + mask.label + ")";
  }
  if (site.causal) label += ", causal";
  std::vector<BufferView> operands{std::move(q), std::move(k), std::move(v)};
  operands.insert(operands.end(), mask.operands.begin(), mask.operands.end());
  operands.push_back(with_batch(storage_.places[node.out[0]], batch));
  const backend::FusedBody* body = node.in.size() == 4 ? &mask.body : nullptr;
  push(step_of(emitter_.attention(site, g_.type(node.in[0]).dtype, body, layouts_of(operands)), std::move(label), 1, operands), node.origin);
}

namespace {

// The layout of the given dims over a value that broadcasts to them.
BufferView broadcast_to(BufferView place, const Dims& dims) {
  StridedLayout& w = place.layout;
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
  auto operand = [&](const BufferView& place) { step.operands.push_back(view_of(place)); };
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
      emit_root(storage_.part_root.at({n, 0}));
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
      emit_root(storage_.part_root.at({n, 0}));
      step.kernel = "scatter_along";
      kernels::ScatterArgs args;
      args.kind = scatter_kind(a.string("kind"));
      args.axes = {static_cast<uint8_t>(a.integer("axis"))};
      step.constants = kernels::serialise(args);
      BufferView index = require(node.in[1]), updates = require(node.in[2]);
      updates.layout.dims = index.layout.dims;
      operand(index);
      operand(updates);
      break;
    }
    default: fail(Code::unsupported, "no backend has a kernel for {}", name_of(node.op));
  }
  for (ValueId v : node.out) operand(storage_.places[v]);
  push(std::move(step), node.origin);
}

void FunctionCompiler::emit_pack(ValueId v, uint32_t derived) {
  BufferView b = require(v);
  StridedLayout& w = b.layout;
  while (w.dims.size() > 2) {  // leading axes of size 1
    w.dims.erase(w.dims.begin());
    w.strides.erase(w.strides.begin());
  }
  plan::Step step;
  step.kernel = "matmul_pack";
  step.label = "pack";
  step.writes = 1;
  const DType type = g_.type(v).dtype;
  const int64_t elements = derived_bytes_[derived] / static_cast<int64_t>(size_of(type));
  BufferView packed{leaf_buffer(plan::Buffer::Kind::derived, derived, Dim(derived_bytes_[derived])), type, {{Dim(elements)}, {Dim(1)}}};
  step.operands = {view_of(b), view_of(packed)};
  step.sizes = {sizes_.ref(w.dims[0]), sizes_.ref(w.dims[1])};
  push(std::move(step), none_id);
}

void FunctionCompiler::emit_node(NodeId n) {
  const Node& node = g_.nodes[n];
  if (node.op == Op::attention) return emit_attention(n);
  if (node.op == Op::concat) {
    if (!storage_.stored[node.out[0]]) return;  // read apart
    for (uint32_t i = 0; i < node.in.size(); ++i) {
      if (emitted_parts_.contains({n, i})) continue;  // made in place
      emit_root(storage_.part_root.at({n, i}));
    }
    return;
  }
  if (node.op == Op::update) {
    for (uint32_t i = 0; i < 2; ++i) emit_root(storage_.part_root.at({n, i}));
    return;
  }
  if (ir::is_leaf(node.op)) return;
  if (ir::is_inlined(node.op) || ir::is_anchor(node.op)) {
    for (ValueId v : node.out) {
      if (storage_.stored[v]) emit_root(storage_.root_of.at(v));
    }
    return;
  }
  emit_kernel(n);
}

}  // namespace ingot::compile
