// GEMMs: the prologue of A, the forms of B, and the epilogue.
#include <algorithm>
#include <cmath>

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

// True if batches of this many rows, as the matrices of one batched GEMM, cost less than a copy of A whose rows merge. A tile has about 128 rows, and the last one of each
// batch is not full. Reading and writing a row of A takes about as long as 480 columns of the result (an estimate for GPUs).
bool is_better_in_batches(const StridedLayout& a, const Dim& columns) {
  constexpr double tile = 128, copy = 480;
  const auto rows = a.dims[a.dims.size() - 2].constant(), n = columns.constant();
  if (!rows || !n || *rows == 0 || *n == 0 || !(a.strides.back() == Dim(1))) return false;
  const auto r = static_cast<double>(*rows);
  return std::ceil(r / tile) * tile / r - 1 <= copy / static_cast<double>(*n);
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
    b.pieces = {packed(d)};
    return b;
  }
  if (const std::optional<ValueId> concat = s_.pieces(gemm)) {
    for (ValueId part : g_.producer(*concat).in) {
      auto piece = s_.require(part);
      if (!piece) return piece.missing();
      std::swap(piece->layout.dims[0], piece->layout.dims[1]);
      std::swap(piece->layout.strides[0], piece->layout.strides[1]);
      b.pieces.push_back(std::move(*piece));
    }
    b.pieces[0] = with_batch(b.pieces[0], batch);
    return b;
  }
  const EncodedB* encoded = s_.encoded(gemm);
  auto matrix = s_.require(encoded != nullptr ? encoded->numbers : gemm.in[1]);
  if (!matrix) return matrix.missing();
  b.pieces = {with_batch(std::move(*matrix), batch)};
  return b;
}

ValueId Scheduler::stored_for(std::optional<backend::Obstacle> obstacle, const Node& gemm, ValueId anchor, ValueId instead) const {
  using backend::Obstacle;
  auto can_store = [&](ValueId v) { return !s_.stored[v]; };
  const std::optional<ValueId> concat = s_.pieces(gemm);
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

void Scheduler::gemm(WrittenBody written) {
  const NodeId id = g_.values[written.anchor].producer;
  const Node& anchor = g_.nodes[id];
  Dims batch(g_.type(written.anchor).dims.begin(), g_.type(written.anchor).dims.end() - 2);
  // Storing a value may remove an obstacle; a value that is stored already cannot be stored differently.
  auto can_store = [&](ValueId v) { return !s_.stored[v]; };
  const Type& left = g_.type(anchor.in[0]);
  std::optional<WrittenBody> prologue;
  OperandA a{with_batch({UINT32_MAX, left.dtype, row_major(left.dims)}, batch), std::nullopt};
  if (s_.has_prologue(anchor)) {
    auto body = write_prologue(s_, anchor.in[0]);
    if (!body) return need(body.missing());
    prologue = std::move(*body);
  } else {
    auto operand = s_.operand_a(anchor.in[0], batch);
    if (!operand) return need(operand.missing());
    a = std::move(*operand);
  }
  const std::optional<ValueId> concat = s_.pieces(anchor);
  const EncodedB* encoded = s_.encoded(anchor);
  auto right = operand_b(id, batch);
  if (!right) return need(right.missing());
  OperandB b = std::move(*right);
  // If B has no batch, merge the batch axes into M. If A's batch axes lie in another order (batch after sequence), A is stored in row-major order first.
  StridedLayout& first = b.pieces[0].layout;
  auto one_matrix = [&] { return b.packed || first.strides[batch.size() - 1] == Dim(0); };
  auto site_of = [&] {
    backend::Gemm site;
    site.type = left.dtype;
    site.convolution = is_convolution(anchor);
    if (encoded != nullptr) {
      site.encoding = encoded->encoding;
    } else if (b.pieces[0].dtype != left.dtype) {
      site.encoding = ir::Encoding{.storage = b.pieces[0].dtype};
    }
    site.a = a.place.layout;
    site.b = layouts_of(b.pieces);
    site.packed = b.packed;
    site.constant = std::all_of(b.pieces.begin(), b.pieces.end(), [&](const BufferView& p) { return is_constant(p); });
    site.batch_rank = batch.size();
    site.map = a.map;
    site.m_rank = a.m_rank;
    site.gated = written.gated;
    if (prologue) site.prologue = {&prologue->body, layouts_of(prologue->operands)};
    return site;
  };
  // A kernel that reads images as they lie needs no merged batch.
  auto reads_image = [&] { return is_convolution(anchor) && choose({site_of(), &written.body, layouts_of(written.operands)}).image_in_place; };
  auto takes_batches = [&] {
    return !a.map && !prologue && !concat && !written.gated && is_better_in_batches(a.place.layout, g_.type(written.anchor).dims.back()) &&
           choose({site_of(), &written.body, layouts_of(written.operands)}).choice.has_value();
  };
  bool body_prevents = false;  // only the body prevents the merge
  while (!batch.empty() && one_matrix()) {
    Merge merged = uses_row_index(written.body) ? Merge::body_prevents : merge_rows(a, written.operands, batch.size());
    if (merged == Merge::a_prevents && can_store(anchor.in[0]) && !takes_batches() && !reads_image()) return need(anchor.in[0]);
    body_prevents = merged == Merge::body_prevents;
    if (merged != Merge::done) break;
    merge_domain(written.body);
    if (!b.packed) {
      first.dims.erase(first.dims.begin() + static_cast<int64_t>(batch.size()) - 1);
      first.strides.erase(first.strides.begin() + static_cast<int64_t>(batch.size()) - 1);
    }
    batch.pop_back();
  }
  // Only the body prevents the merge, and the kernels for these sites have no batch: split the body off.
  if ((prologue || written.gated || concat) && !batch.empty() && can_store(written.anchor)) return need(written.anchor);
  backend::Gemm site = site_of();
  Decision d = choose({site, &written.body, layouts_of(written.operands)}, can_store(written.anchor));
  if (const ValueId copy = s_.unmade_copy(anchor.in[0]); copy != none_id && !d.image_in_place) return need(copy);
  if (d.by_sums) return gemm_by_sums(std::move(written), a.place, b.pieces[0]);
  if (!d.choice && body_prevents) {
    if (batch.size() == 1 && !uses_row_index(written.body) && !prologue && !concat && !written.gated && merge_rows_by_gathers(a, written)) {
      if (!b.packed) {
        first.dims.erase(first.dims.begin());
        first.strides.erase(first.strides.begin());
      }
      batch.clear();
      site.a = a.place.layout;
      site.b = layouts_of(b.pieces);
      site.batch_rank = 0;
      site.m_rank = a.m_rank;
      d = choose({std::move(site), &written.body, layouts_of(written.operands)}, can_store(written.anchor));
    }
    if (!d.choice && can_store(written.anchor)) return need(written.anchor);
  }
  if (!d.choice) {
    const ValueId stored = stored_for(d.obstacle, anchor, written.anchor, prologue ? s_.base_of(anchor.in[0]) : a.copied);
    if (stored != none_id) return need(stored);
    return gemm_by_sums(std::move(written), a.place, b.pieces[0]);
  }
  if (d.side_by_side && written.turned != none_id) return need(written.turned);
  std::vector<BufferView> operands{std::move(a.place)};
  if (prologue) {
    prologue->operands.pop_back();
    operands = std::move(prologue->operands);
    written.label = prologue->label + " + " + written.label;
  }
  operands.insert(operands.end(), b.pieces.begin(), b.pieces.end());
  auto writes = static_cast<uint32_t>(written.body.stores.size());
  operands.insert(operands.end(), written.operands.begin(), written.operands.end());
  push(std::move(*d.choice), std::move(operands), writes, std::move(written.label), anchor.origin);
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
  auto b = s_.require(g_.outputs[output].value);
  if (!b) return need(b.missing());
  StridedLayout& w = b->layout;
  while (w.dims.size() > 2) {  // leading axes of size 1
    w.dims.erase(w.dims.begin());
    w.strides.erase(w.strides.begin());
  }
  Choice choice{{std::string(c_.derived[output].packing->kernel), {}, {w.dims[0], w.dims[1]}}, {}};
  push(std::move(choice), {std::move(*b), packed(static_cast<uint32_t>(output))}, 1, "pack", none_id);
}

}  // namespace ingot::compile
