// Computes several short rows with reductions at once: each instruction starts once for all of them. Each row's values are those of Evaluator::row.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

using ir::DType;
using ir::Op;

namespace {

// True for reductions that reduce_rows has.
bool may_reduce(const Bound& b, const Program& p, uint32_t k) {
  const ProgramInstruction& i = p.code[k];
  if (b.uniform[i.in[0]] != 0 || i.cls != p.code[i.in[0]].cls) return false;
  switch (b.together[k].kind) {
    case Together::exp_sum:
    case Together::product_sum:
    case Together::square_sum:
    case Together::half_sum:
    case Together::widened_sum: return true;
    case Together::alone: break;
    default: return false;
  }
  if (i.reduction == Reduction::sum) return i.cls == Class::f32 || i.cls == Class::f64;
  return i.cls == Class::f32 && (i.reduction == Reduction::prod || i.reduction == Reduction::max || i.reduction == Reduction::min);
}

}  // namespace

void join_rows(Bound& b, const Program& p) {
  const int outer = p.domain_rank - p.row_rank;
  const bool along_rows = p.has_reductions && b.across == 0 && p.row_rank == 1 && outer > 0;
  if (!along_rows || p.has_accumulator || b.in_order || !b.staged.empty()) return;
  const auto axis = static_cast<size_t>(outer) - 1;
  const int64_t length = b.domain.back();
  if (length < 2 || length >= 2 * fused_tuning::part_of_row) return;
  bool in_memory = true;  // all that is reduced: nothing takes a block
  std::vector<uint8_t> differs(p.code.size(), 0);
  std::vector<int64_t> row_bytes(p.code.size(), 0);
  for (uint32_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (b.together[k].kind == Together::absorbed) {
      for (uint32_t in : i.in) differs[k] |= differs[in];
      continue;
    }
    switch (i.kind) {
      case Kind::literal:
      case Kind::size: break;
      case Kind::index:
        if (static_cast<size_t>(i.axis) >= axis) return;
        break;
      case Kind::load:
        if (!i.lower.empty() || !i.in.empty()) return;
        differs[k] = b.strides[i.operand][axis] != 0;
        break;
      case Kind::map:
        for (uint32_t in : i.in) differs[k] |= differs[in];
        if (b.together[k].kind == Together::places && differs[k] != 0) return;  // each row begins anew
        break;
      case Kind::reduce:
        for (uint32_t in : i.in) differs[k] |= differs[in];
        if (differs[k] == 0 || !may_reduce(b, p, k)) return;
        break;
      default: return;
    }
    const auto size = static_cast<int64_t>(b.in_memory[k] != 0 ? ir::size_of(p.memory[i.operand]) : size_of(i.cls));
    const bool as_is = i.kind == Kind::load && (has_block_layout(p.memory[i.operand]) || b.in_memory[k] != 0);
    const bool there = as_is && b.uniform[k] == 0 && b.strides[i.operand].back() == 1;
    in_memory = in_memory && (there || b.uniform[k] != 0);
    if (differs[k] != 0) row_bytes[k] = b.uniform[k] != 0 ? size : size * (there ? b.strides[i.operand][axis] : length);
  }
  if (length > fused_tuning::longest_row_of_block && !in_memory) return;
  b.rows_together = std::min(std::max<int64_t>((in_memory ? fused_tuning::elements_in_memory : fused_tuning::elements_of_rows) / length, 2), b.domain[axis]);
  b.differs = std::move(differs);
  b.row_bytes = std::move(row_bytes);
}

// Reads what is needed of all rows: in place, or converted.
void Evaluator::load_rows(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t count) {
  const int64_t length = b_.domain.back();
  if (b_.differs[id] == 0) return run(i, id, at, 0, length);
  const DType type = p_.memory[i.operand];
  const std::vector<int64_t>& strides = b_.strides[i.operand];
  const auto size = static_cast<int64_t>(ir::size_of(type));
  const int64_t row_stride = strides[static_cast<size_t>(p_.domain_rank) - 2], step = strides.back();
  const std::byte* from = data(i.operand) + offset_of(i.operand, at, p_.domain_rank - 1) * size;
  const BlockOps& ops = block_ops();
  Value& v = values_[id];
  const bool same = has_block_layout(type) || b_.in_memory[id] != 0, each = b_.uniform[id] != 0;
  if (same && (each ? row_stride : step) == 1) {
    v.data = from;
    return;
  }
  std::byte* to = slot(id);
  v.data = to;
  if (each) return ops.load(type, to, from, row_stride, count);
  if (step == 1 && row_stride == length) return ops.load(type, to, from, 1, count * length);
  for (int64_t r = 0; r < count; ++r, from += row_stride * size, to += b_.row_bytes[id]) ops.load(type, to, from, step, length);
}

// True if the block is the memory to which it is stored.
bool Evaluator::writes_rows(uint32_t id) const {
  const uint8_t s = b_.in_place[id];
  if (s == 0 || p_.code[id].kind != Kind::map || b_.differs[id] == 0) return false;
  return b_.strides[p_.stores[s - 1u].operand][static_cast<size_t>(p_.domain_rank) - 2] == b_.domain.back();
}

void Evaluator::map_rows(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t count) {
  const int64_t length = b_.domain.back();
  if (b_.differs[id] == 0) return run(i, id, at, 0, length);
  Value& v = values_[id];
  if (b_.uniform[id] != 0) {
    v.data = slot(id);
    row_ = each_row;
    apply(i, id, slot(id), count);
    row_ = only_row;
    return;
  }
  auto* to = writes_rows(id) ? static_cast<std::byte*>(target(id, at, 0)) : slot(id);
  v.data = to;
  const Together& together = b_.together[id];
  if (map_by_rows(i, id, reinterpret_cast<float*>(to), count)) return;
  // As one long row, if each operand is that or a number.
  const auto size = static_cast<int64_t>(size_of(i.cls));
  auto is_one = [&](uint32_t in) {
    if (in == Together::none) return true;
    return b_.uniform[in] != 0 ? b_.differs[in] == 0 : b_.row_bytes[in] == length * static_cast<int64_t>(size_of(p_.code[in].cls));
  };
  const bool one = together.kind == Together::alone ? std::all_of(i.in.begin(), i.in.end(), is_one) : std::all_of(together.in, together.in + 5, is_one);
  if (one) return apply(i, id, to, count * length);
  for (row_ = 0; row_ < count; ++row_) apply(i, id, to + row_ * length * size, length);
  row_ = only_row;
}

// Floats of rows with a number of each, without a call for each row. False if it is something else.
bool Evaluator::map_by_rows(const ProgramInstruction& i, uint32_t id, float* to, int64_t count) {
  const Together& together = b_.together[id];
  const int64_t n = b_.domain.back();
  const BlockOps& ops = block_ops();
  auto floats = [&](uint32_t k) { return static_cast<const float*>(values_[k].data); };
  auto step = [&](uint32_t k) { return b_.row_bytes[k] / static_cast<int64_t>(sizeof(float)); };
  auto is_each = [&](uint32_t k) { return b_.uniform[k] != 0 && b_.differs[k] != 0; };
  if (together.kind == Together::exp_sum) {
    const uint32_t x = together.in[0], m = together.in[1];
    auto* sums = reinterpret_cast<float*>(slot(together.sum));
    return ops.exp_sum_rows(to, floats(x), step(x), floats(m), sums, n, count), true;
  }
  if (together.kind == Together::divide) {
    const uint32_t x = together.in[0], sum = together.in[1];
    return ops.by_rows(ByRow::fraction, to, floats(x), step(x), floats(sum), n, count), true;
  }
  if (together.kind != Together::alone || i.cls != Class::f32 || i.in.size() != 2) return false;
  uint32_t x = i.in[0], m = i.in[1];
  if (i.op != Op::add && i.op != Op::sub && i.op != Op::mul && i.op != Op::div) return false;
  if (is_each(x) && (i.op == Op::add || i.op == Op::mul)) std::swap(x, m);
  if (b_.uniform[x] != 0 || !is_each(m)) return false;
  const ByRow kind = i.op == Op::add ? ByRow::add : i.op == Op::sub ? ByRow::sub : i.op == Op::mul ? ByRow::mul : ByRow::div;
  return ops.by_rows(kind, to, floats(x), step(x), floats(m), n, count), true;
}

void Evaluator::reduce_rows(const ProgramInstruction& i, uint32_t id, int64_t count) {
  const BlockOps& ops = block_ops();
  const Together& together = b_.together[id];
  const int64_t n = b_.domain.back();
  std::byte* const to = slot(id);
  values_[id].data = to;
  if (together.kind == Together::exp_sum) return;  // map_by_rows has put the sums there
  if (together.kind == Together::alone && i.cls == Class::f32 && i.reduction != Reduction::prod) {
    const uint32_t in = i.in[0];
    return ops.fold_rows(i.reduction, reinterpret_cast<float*>(to), static_cast<const float*>(values_[in].data), b_.row_bytes[in] / 4, n, count);
  }
  const uint32_t x = together.kind == Together::alone ? i.in[0] : together.in[0];
  const Class c = p_.code[x].cls;
  const bool has_middle = together.in[1] != Together::none;
  const auto* from = static_cast<const std::byte*>(values_[x].data);
  const std::byte* other = has_middle ? static_cast<const std::byte*>(values_[together.in[1]].data) : nullptr;
  const int64_t row_stride = b_.row_bytes[x], other_stride = has_middle ? b_.row_bytes[together.in[1]] : 0;
  for (int64_t r = 0; r < count; ++r, from += row_stride, other += other_stride) {
    if (i.cls == Class::f64) {
      const double middle = has_middle ? *reinterpret_cast<const double*>(other) : 0;
      const double sum = together.kind == Together::square_sum    ? ops.wide_square_sum(c, from, middle, n)
                         : together.kind == Together::product_sum ? ops.wide_dot(reinterpret_cast<const double*>(from), reinterpret_cast<const double*>(other), n)
                                                                  : ops.wide_sum(c, from, n);
      std::memcpy(to + r * 8, &sum, 8);
      continue;
    }
    const auto *floats = reinterpret_cast<const float*>(from), *others = reinterpret_cast<const float*>(other);
    float result;
    switch (together.kind) {
      case Together::alone: result = static_cast<float>(ops.product(c, from, n)); break;
      case Together::product_sum: result = ops.dot(floats, others, n); break;
      case Together::half_sum: result = ops.sum_halves(together.memory, from, n); break;
      default: result = ops.square_sum(floats, has_middle ? *others : 0, n);
    }
    std::memcpy(to + r * 4, &result, 4);
  }
}

void Evaluator::write_rows(size_t s, const int64_t* at, int64_t count) {
  const ProgramStore& st = p_.stores[s];
  if (b_.in_place[st.reg] == s + 1 && writes_rows(st.reg)) return;
  const DType type = p_.memory[st.operand];
  const std::vector<int64_t>& strides = b_.strides[st.operand];
  const auto size = static_cast<int64_t>(ir::size_of(type));
  const int64_t length = b_.domain.back(), row_stride = strides[static_cast<size_t>(p_.domain_rank) - 2];
  std::byte* to = data(st.operand) + offset_of(st.operand, at, p_.domain_rank - 1) * size;
  const BlockOps& ops = block_ops();
  if (b_.dims[st.operand].back() == 1 && length > 1) {  // one element for each row
    row_ = each_row;
    ops.store(type, to, row_stride, argument(st.reg), count);
    row_ = only_row;
    return;
  }
  if (b_.uniform[st.reg] == 0 && b_.differs[st.reg] != 0 && row_stride == length && strides.back() == 1 &&
      b_.row_bytes[st.reg] == length * static_cast<int64_t>(size_of(p_.code[st.reg].cls)))
    return ops.store(type, to, 1, argument(st.reg), count * length);
  for (row_ = 0; row_ < count; ++row_, to += row_stride * size) ops.store(type, to, strides.back(), argument(st.reg), length);
  row_ = only_row;
}

void Evaluator::rows(const int64_t* at, int64_t count) {
  direct_ = true;
  for (uint32_t k : b_.each_row) {
    const ProgramInstruction& i = p_.code[k];
    switch (i.kind) {
      case Kind::reduce: reduce_rows(i, k, count); break;
      case Kind::load: load_rows(i, k, at, count); break;
      case Kind::map: map_rows(i, k, at, count); break;
      default: run(i, k, at, 0, b_.domain.back());
    }
  }
  for (size_t s = 0; s < p_.stores.size(); ++s) write_rows(s, at, count);
}

}  // namespace ingot::kernels
