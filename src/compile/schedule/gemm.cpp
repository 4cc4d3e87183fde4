// GEMMs: the prologue of A, the forms of B, and the epilogue.
#include <algorithm>

#include "base/error.h"
#include "compile/schedule/scheduler.h"

namespace ingot::compile {

using namespace ir;

namespace {

enum class Merge : uint8_t { done, a_prevents, body_prevents };

// Merges the last batch axis and M where every layout allows it: a GEMM whose batches share B is one tall GEMM.
Merge merge_rows(OperandA& a, std::vector<BufferView>& operands, size_t batch_rank) {
  StridedLayout& w = a.place.layout;
  size_t m = batch_rank, b = m - 1;
  // Axes of size 1 have no stride.
  const Dims& result = operands.back().layout.dims;
  const bool one_batch = result[b] == Dim(1), one_row = !a.map && result[m] == Dim(1);
  auto mergeable = [&](const StridedLayout& x, const Dim& extent) {
    if (one_batch || one_row || (x.strides[b] == Dim(0) && x.strides[m] == Dim(0))) return true;
    return x.strides[b] == x.strides[m] * extent;
  };
  Dim extent = a.map ? Dim(1) : w.dims[m];
  for (size_t i = 0; a.map && i < a.m_rank; ++i) extent *= a.map->dims[m + i];
  if (!a.map && !mergeable(w, extent)) return Merge::a_prevents;
  for (const BufferView& p : operands) {
    if (!mergeable(p.layout, extent)) return Merge::body_prevents;
  }
  auto merge = [&](StridedLayout& x) {
    // A and the result have all rows, even if they repeat or are empty. An operand of the body has size 1 where it repeats.
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
  // outer = [.., b, m]: b and m become one axis, which no index instruction may use.
  Dim joined = body.outer[body.outer.size() - 2] * body.outer.back();
  body.outer.pop_back();
  body.outer.back() = joined;
  auto gone = static_cast<uint32_t>(body.outer.size());
  for (backend::Instruction& i : body.code) {
    if (i.kind == backend::Instruction::Kind::index && i.axis > gone) --i.axis;
  }
}

// Merges the only batch axis and M although an operand of the body differs per batch and repeats within it (like a bias per image): the operand is gathered
// by row / rows of a batch. False, with nothing changed, if something else prevents it.
bool merge_rows_by_gathers(OperandA& a, WrittenBody& written) {
  backend::FusedBody& body = written.body;
  if (body.outer.size() != 2) return false;
  const Dim rows = body.outer[1];
  std::vector<BufferView> operands = written.operands;
  std::vector<std::pair<uint32_t, Dim>> gathered;  // operand, stride from batch to batch
  for (uint32_t k = 0; k + 1 < operands.size(); ++k) {
    StridedLayout& x = operands[k].layout;
    if (x.strides[0] == x.strides[1] * rows || !(x.strides[1] == Dim(0)) || x.dims.size() != 3) continue;
    gathered.emplace_back(k, x.strides[0]);
    x.strides[0] = 0;
  }
  OperandA left = a;
  if (gathered.empty() || merge_rows(left, operands, 1) != Merge::done) return false;
  a = std::move(left);
  merge_domain(body);
  std::vector<backend::Instruction> index(3);
  for (backend::Instruction& i : index) i.dtype = DType::i64;
  index[0].kind = backend::Instruction::Kind::index;
  index[1].kind = backend::Instruction::Kind::size;
  index[1].dim = rows;
  index[2].kind = backend::Instruction::Kind::map;
  index[2].op = Op::floordiv;
  index[2].in = {0, 1};
  for (backend::Instruction& i : body.code) {
    for (backend::Reg& r : i.in) r += 3;
  }
  for (backend::Store& store : body.stores) store.value += 3;
  body.code.insert(body.code.begin(), index.begin(), index.end());
  for (const auto& [k, step] : gathered) {
    StridedLayout& x = operands[k].layout;
    x.dims[0] = 1;
    x.dims.push_back(written.operands[k].layout.dims[0]);
    x.strides.push_back(step);
    for (backend::Instruction& i : body.code) {
      if (i.kind == backend::Instruction::Kind::load && i.operand == k) i.in = {2};
    }
  }
  written.operands = std::move(operands);
  return true;
}

bool uses_row_index(const backend::FusedBody& body) {
  auto m = static_cast<uint32_t>(body.outer.size() - 1);
  for (const backend::Instruction& i : body.code) {
    if (i.kind == backend::Instruction::Kind::index && (i.axis == m || i.axis + 1 == m)) return true;
    if (i.kind == backend::Instruction::Kind::load && (!i.lower.empty() || !i.in.empty())) return true;
  }
  return false;
}

}  // namespace

bool Scheduler::is_constant(const BufferView& p) const {
  const plan::Buffer::Kind kind = out_.buffers.list[p.buffer].kind;
  return kind == plan::Buffer::Kind::weight || (kind == plan::Buffer::Kind::derived && !c_.is_prepare);  // in prepare itself, derived tensors are still being written
}

// A packed derived tensor as one axis of storage elements.
BufferView Scheduler::packed(uint32_t derived) {
  const DerivedTensor& d = c_.derived[derived];
  const DType type = d.packing->encoding.storage;
  return {out_.buffers.leaf(plan::Buffer::Kind::derived, derived, Dim(d.bytes)), type, {{Dim(d.bytes / static_cast<int64_t>(size_of(type)))}, {Dim(1)}}};
}

Outcome<Scheduler::OperandB> Scheduler::operand_b(NodeId id, const Dims& batch) {
  const Node& gemm = g_.nodes[id];
  OperandB b;
  if (id < c_.packed_operand.size() && c_.packed_operand[id] != none_id) {
    const uint32_t d = c_.packed_operand[id];
    b.packed = c_.derived[d].packing;
    b.parts = {packed(d)};
    return b;
  }
  if (const std::optional<ValueId> concat = s_.concat_of_b(gemm)) {
    for (ValueId part : g_.producer(*concat).in) {
      auto matrix = s_.require(part);
      if (!matrix) return matrix.missing();
      std::swap(matrix->layout.dims[0], matrix->layout.dims[1]);
      std::swap(matrix->layout.strides[0], matrix->layout.strides[1]);
      b.parts.push_back(std::move(*matrix));
    }
    b.parts[0] = with_batch(b.parts[0], batch);
    return b;
  }
  if (gemm.op == Op::ragged_matmul) {
    auto matrices = s_.require(gemm.in[1]);
    if (!matrices) return matrices.missing();
    b.parts = {std::move(*matrices)};
    return b;
  }
  const EncodedB* encoded = s_.encoded(gemm);
  auto matrix = s_.require(encoded != nullptr ? encoded->numbers : gemm.in[1]);
  if (!matrix) return matrix.missing();
  b.parts = {with_batch(std::move(*matrix), batch)};
  return b;
}

ValueId Scheduler::stored_for(std::optional<backend::Obstacle> obstacle, const Node& gemm, ValueId anchor, ValueId instead) const {
  using backend::Obstacle;
  auto can_store = [&](ValueId v) { return !s_.stored[v]; };
  const std::optional<ValueId> concat = s_.concat_of_b(gemm);
  const bool encoded = s_.encoded(gemm) != nullptr;
  const ValueId right = concat.value_or(gemm.in[1]);
  if (instead != none_id && (obstacle == Obstacle::a || obstacle == Obstacle::types)) return instead;
  if (obstacle == Obstacle::a && can_store(gemm.in[0])) return gemm.in[0];
  if (obstacle == Obstacle::b && can_store(right)) return right;
  if (encoded && obstacle != Obstacle::body) return right;
  if (can_store(anchor)) return anchor;
  if (instead != none_id) return instead;
  if (concat) return *concat;
  return encoded ? right : none_id;
}

// What a GEMM reads. Batch axes that were merged into M are gone.
struct Scheduler::GemmReads {
  OperandA a;
  std::optional<WrittenBody> prologue;  // computes A
  OperandB b;
  Dims batch;
  std::vector<BufferView> scale = {}, zero = {}, row_ends = {};  // one, or none

  // True if all batches share B.
  bool has_one_b() const { return b.packed || b.parts[0].layout.strides[batch.size() - 1] == Dim(0); }
  // After the last batch axis was merged into M.
  void drop_batch_axis() {
    batch.pop_back();
    if (b.packed) return;
    StridedLayout& first = b.parts[0].layout;
    first.dims.erase(first.dims.begin() + static_cast<int64_t>(batch.size()));
    first.strides.erase(first.strides.begin() + static_cast<int64_t>(batch.size()));
  }
  StepOperands operands(const WrittenBody& written) const {
    using kernels::Role;
    StepOperands out;
    prologue ? out.add(Role::prologue, std::span(prologue->operands).first(prologue->operands.size() - 1)) : out.add(Role::a, a.place);
    out.add(Role::b, b.parts);
    out.add(Role::scale, scale);
    out.add(Role::zero, zero);
    out.add(Role::row_ends, row_ends);
    out.add_body(written);
    return out;
  }
};

Outcome<Scheduler::GemmReads> Scheduler::gemm_reads(NodeId id) {
  const Node& gemm = g_.nodes[id];
  const Dims& dims = g_.type(gemm.out[0]).dims;
  const Type& left = g_.type(gemm.in[0]);
  GemmReads out{{}, std::nullopt, {}, Dims(dims.begin(), dims.end() - 2)};
  out.a = {with_batch({UINT32_MAX, left.dtype, row_major(left.dims)}, out.batch), std::nullopt};
  if (s_.has_prologue(gemm)) {
    auto body = write_prologue(s_, gemm.in[0]);
    if (!body) return body.missing();
    out.prologue = std::move(*body);
  } else {
    auto operand = s_.operand_a(gemm.in[0], out.batch);
    if (!operand) return operand.missing();
    out.a = std::move(*operand);
  }
  auto right = operand_b(id, out.batch);
  if (!right) return right.missing();
  out.b = std::move(*right);
  if (const EncodedB* b = s_.encoded(gemm); b != nullptr && b->grouped()) {
    for (auto [v, to] : {std::pair(b->scale, &out.scale), std::pair(b->zero, &out.zero)}) {
      if (v == none_id) continue;
      auto found = s_.require(v);
      if (!found) return found.missing();
      to->push_back(std::move(*found));
    }
  }
  if (gemm.op == Op::ragged_matmul) {
    auto ends = s_.require(gemm.in[2]);
    if (!ends) return ends.missing();
    out.row_ends = {std::move(*ends)};
  }
  return out;
}

backend::Site Scheduler::gemm_site(const Node& gemm, const GemmReads& reads, const WrittenBody& written) const {
  const std::vector<BufferView>& parts = reads.b.parts;
  backend::GemmAttributes site;
  std::optional<Encoding> encoding;
  site.type = g_.type(gemm.in[0]).dtype;
  site.convolution = is_convolution(gemm);
  if (const EncodedB* encoded = s_.encoded(gemm)) {
    encoding = encoded->encoding;
  } else if (reads.b.packed && reads.b.packed->encoding.block) {
    encoding = reads.b.packed->encoding;
  } else if (parts[0].dtype != site.type) {
    encoding = ir::Encoding{.storage = parts[0].dtype};
  }
  site.packed = reads.b.packed;
  site.batch_rank = reads.batch.size();
  site.map = reads.a.map;
  site.m_rank = reads.a.m_rank;
  site.gated = written.gated;
  if (reads.prologue) site.prologue = {&reads.prologue->body, layouts_of(reads.prologue->operands), reads.a.place.layout};
  return {std::move(site), &written.body, described(reads.operands(written), encoding)};
}

void Scheduler::gemm(WrittenBody written) {
  const NodeId id = g_.values[written.anchor].producer;
  const Node& anchor = g_.nodes[id];
  auto found = gemm_reads(id);
  if (!found) return need(found.missing());
  GemmReads reads = std::move(*found);
  // Storing a value may remove an obstacle; a value that is stored already cannot be stored differently.
  auto can_store = [&](ValueId v) { return !s_.stored[v]; };
  auto site = [&] { return gemm_site(anchor, reads, written); };
  const ValueId image = s_.skipped_copy(anchor.in[0]);
  const bool without_batch = reads.prologue || written.gated || s_.concat_of_b(anchor);
  // A is copied so that its batch axes and M merge, unless the kernel reads images in any order, or does not wish for it.
  auto takes_batches = [&] {
    backend::Site whole = site();
    const Answer answer = ask(whole, false, image != none_id);
    if (answer.best == nullptr) return false;
    if (is_convolution(anchor) && !wishes(*answer.best, kernels::Role::a, backend::Wish::Axis::k)) return true;
    const bool has_rows = !reads.a.map && reads.a.place.layout.strides.back() == Dim(1);
    return has_rows && !without_batch && answer.best->emit && !has(answer.best->wishes, backend::merged_rows);
  };
  // If B has no batch, merge the batch axes into M. If A's batch axes have another order (batch after sequence), A is stored in row-major order first.
  bool body_prevents = false;  // only the body prevents the merge
  while (!reads.batch.empty() && reads.has_one_b()) {
    Merge merged = uses_row_index(written.body) ? Merge::body_prevents : merge_rows(reads.a, written.operands, reads.batch.size());
    if (merged == Merge::a_prevents && can_store(anchor.in[0]) && !takes_batches()) return need(anchor.in[0]);
    body_prevents = merged == Merge::body_prevents;
    if (merged != Merge::done) break;
    merge_domain(written.body);
    reads.drop_batch_axis();
  }
  // Only the body prevents the merge, and the kernels for these sites have no batch: split the body off.
  if (without_batch && !reads.batch.empty() && can_store(written.anchor)) return need(written.anchor);
  Decision d = choose(site(), can_store(written.anchor), image != none_id);
  if (image != none_id && d.copies_image()) return need(image);
  if (d.by_sums()) return gemm_by_sums(std::move(written), reads.a.place, reads.b.parts[0]);
  if (!d.choice && body_prevents) {
    if (reads.batch.size() == 1 && !uses_row_index(written.body) && !without_batch && merge_rows_by_gathers(reads.a, written)) {
      reads.drop_batch_axis();
      d = choose(site(), can_store(written.anchor));
    }
    if (!d.choice && can_store(written.anchor)) return need(written.anchor);
  }
  if (!d.choice) {
    const ValueId stored = stored_for(d.obstacle, anchor, written.anchor, reads.prologue ? s_.base_of(anchor.in[0]) : reads.a.copied);
    if (stored != none_id) return need(stored);
    if (anchor.op == Op::ragged_matmul) fail(Code::unsupported, "no backend has a kernel for these products of experts");
    return gemm_by_sums(std::move(written), reads.a.place, reads.b.parts[0]);
  }
  if (d.copies_result() && written.contiguous != none_id) return need(written.contiguous);
  if (reads.prologue) written.label = reads.prologue->label + " + " + written.label;
  push(std::move(*d.choice), reads.operands(written), static_cast<uint32_t>(written.body.stores.size()), std::move(written.label), anchor.origin);
}

// A GEMM in primitives: a fused body that reduces over K, then computes the epilogue of each sum.
void Scheduler::gemm_by_sums(WrittenBody written, const BufferView& a, const BufferView& b) {
  using backend::Instruction;
  const backend::FusedBody& epilogue = written.body;
  const size_t batch = a.layout.dims.size() - 2;
  WrittenBody sums;
  sums.label = written.label == "matmul" ? "matmul by sums" : "matmul by sums: " + written.label;
  backend::FusedBody& body = sums.body;
  body.outer = epilogue.outer;
  body.outer.insert(body.outer.end(), epilogue.row.begin(), epilogue.row.end());
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
  const DType type = compute_type(g_.type(written.anchor).dtype);
  auto add = [&](Instruction i) {
    i.dtype = type;
    body.code.push_back(std::move(i));
    return static_cast<backend::Reg>(body.code.size() - 1);
  };
  Instruction load{}, times{}, sum{};
  load.kind = Instruction::Kind::load;
  backend::Reg x = add(load);
  load.operand = 1;
  backend::Reg y = add(load);
  times.kind = Instruction::Kind::map;
  times.op = Op::mul;
  times.in = {x, y};
  sum.kind = Instruction::Kind::reduce;
  sum.reduction = backend::Reduction::sum;
  sum.in = {add(times)};
  const backend::Reg result = add(sum);
  body.operands = {a.dtype, b.dtype};
  sums.operands = {over(a, true), over(b, false)};
  // The epilogue's axes are the outer ones: its operands have one element along K.
  std::vector<backend::Reg> now;
  for (const Instruction& i : epilogue.code) {
    if (i.kind == Instruction::Kind::accumulator) {
      now.push_back(result);
      continue;
    }
    Instruction& moved = body.code.emplace_back(i);
    for (backend::Reg& r : moved.in) r = now[r];
    if (i.kind == Instruction::Kind::load) moved.operand += 2;
    now.push_back(static_cast<backend::Reg>(body.code.size() - 1));
  }
  for (const backend::Store& s : epilogue.stores) body.stores.push_back({s.operand + 2, now[s.value]});
  body.operands.insert(body.operands.end(), epilogue.operands.begin(), epilogue.operands.end());
  for (BufferView& p : written.operands) {
    const auto at = static_cast<int64_t>(body.outer.size());
    p.layout.dims.insert(p.layout.dims.begin() + at, 1);
    p.layout.strides.insert(p.layout.strides.begin() + at, 0);
    sums.operands.push_back(std::move(p));
  }
  fused(std::move(sums), g_.producer(written.anchor).origin);
}

void Scheduler::pack(size_t output) {
  const backend::Packing& packing = *c_.derived[output].packing;
  static constexpr kernels::Role roles[] = {kernels::Role::b, kernels::Role::scale, kernels::Role::zero};
  StepOperands operands;
  Dims sizes;
  for (ValueId v : packed_operands(g_, g_.outputs[output].value, packing)) {
    auto found = s_.require(v);
    if (!found) return need(found.missing());
    StridedLayout& w = found->layout;
    while (w.dims.size() > 2 && w.dims[0] == Dim(1)) {
      w.dims.erase(w.dims.begin());
      w.strides.erase(w.strides.begin());
    }
    if (operands.views.empty()) sizes = w.dims;
    operands.add(roles[operands.views.size()], std::move(*found));
  }
  Choice choice{{std::string(packing.kernel), {}, std::move(sizes)}, {}};
  operands.add(kernels::Role::output, packed(static_cast<uint32_t>(output)));
  push(std::move(choice), std::move(operands), 1, "pack", none_id);
}

}  // namespace ingot::compile
