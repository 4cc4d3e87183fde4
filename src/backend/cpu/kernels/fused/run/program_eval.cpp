// Evaluates a bound program, one row or one segment of a row at a time.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"
#include "ir/scalar_functions.h"

namespace ingot::kernels {

using ir::DType;
using ir::Op;

Evaluator::Evaluator(const Bound& bound, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held)
    : b_(bound), p_(*bound.program), operands_(operands), scratch_(scratch), held_(held) {
  static_assert(sizeof(Value) <= state_bytes);
  values_ = reinterpret_cast<Value*>(scratch);
  // Literals never change.
  for (uint32_t k = 0; k < p_.code.size(); ++k) {
    const ProgramInstruction& i = p_.code[k];
    Value& v = values_[k];
    v.data = &v.scalar;
    v.started = false;
    if (b_.straight[k] == Bound::always) v.data = data(i.operand);  // of row 0; loads that differ between rows are set per row
    if (i.kind != Kind::literal && i.kind != Kind::size) continue;
    if (i.kind == Kind::size) {
      int64_t s = b_.sizes[i.size];
      std::memcpy(&v.scalar, &s, 8);
    } else if (i.cls == Class::f32) {
      auto f = static_cast<float>(i.f);
      std::memcpy(&v.scalar, &f, 4);
    } else if (i.cls == Class::f64) {
      std::memcpy(&v.scalar, &i.f, 8);
    } else if (i.cls == Class::b8) {
      v.scalar = i.i != 0;
    } else {
      std::memcpy(&v.scalar, &i.i, 8);
    }
  }
}

namespace {

// to[e] = begin + e
void count_from(int64_t* to, int64_t begin, int64_t n) {
  typedef int64_t Eight __attribute__((vector_size(64), aligned(8), may_alias));
  Eight next = Eight{0, 1, 2, 3, 4, 5, 6, 7} + begin;
  int64_t e = 0;
  for (; e + 8 <= n; e += 8, next += 8) *reinterpret_cast<Eight*>(to + e) = next;
  for (; e < n; ++e) to[e] = begin + e;
}

}  // namespace

std::byte* Evaluator::block(int slot) const {
  size_t head = (p_.code.size() * 48 + 127) / 64 * 64;
  return scratch_ + head + static_cast<size_t>(slot) * b_.block * 8;
}

BlockArgument Evaluator::argument(uint32_t reg) const {
  const void* const data = values_[reg].data;
  const bool uniform = b_.uniform[reg] != 0;
  if (row_ == only_row) return {data, uniform};
  if (row_ == each_row) return {data, uniform && b_.differs[reg] == 0};
  return {static_cast<const std::byte*>(data) + row_ * b_.row_bytes[reg], uniform};
}

// The memory of a guarded load, if its elements are contiguous and all inside the operand; else null.
const std::byte* Evaluator::whole(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n) const {
  const std::vector<int64_t>&strides = b_.strides[i.operand], &dims = b_.dims[i.operand], &lower = b_.lower[id], &step = b_.step[id];
  int64_t offset = 0;
  const size_t last = lower.size() - 1;
  for (size_t d = 0; d <= last; ++d) {
    const int64_t c = (d < last ? at[d] * step[d] : begin) - lower[d];
    if (c < 0 || c + (d < last ? 1 : n) > dims[d]) return nullptr;
    offset += c * strides[d];
  }
  return data(i.operand) + offset * static_cast<int64_t>(ir::size_of(p_.memory[i.operand]));
}

// Loads n elements that are contiguous along the innermost axis, from row coordinates `row`.
void Evaluator::load_piece(const ProgramInstruction& i, uint32_t id, const int64_t* at, const int64_t* row, int64_t n, void* to, int64_t done) {
  const DType type = p_.memory[i.operand];
  const std::byte* const from = data(i.operand);
  const std::vector<int64_t>&strides = b_.strides[i.operand], &dims = b_.dims[i.operand];
  int outer = p_.domain_rank - p_.row_rank;
  size_t memory = ir::size_of(type), element = size_of(i.cls);
  auto* out = static_cast<std::byte*>(to) + static_cast<size_t>(done) * element;
  const BlockOps& ops = block_ops();
  int64_t offset = 0;
  int64_t first = 0, last = n;  // the part inside the bounds
  if (!i.lower.empty()) {
    const std::vector<int64_t>&lower = b_.lower[id], &step = b_.step[id];
    bool outside = false;  // on an axis before the last
    const int64_t by = step.back();
    for (int a = 0; a < p_.domain_rank; ++a) {
      auto d = static_cast<size_t>(a);
      int64_t c = (a < outer ? at[a] : row[a - outer]) * step[d] - lower[d];
      if (a == p_.domain_rank - 1) {
        // The number of steps to the first index >= 0, and to the first one past the end.
        auto steps = [&](int64_t to) { return by == 1 ? to : to > 0 ? (to + by - 1) / by : 0; };
        first = std::clamp<int64_t>(steps(-c), 0, n);
        last = std::clamp<int64_t>(steps(dims[d] - c), first, n);
        offset += (c + first * by) * strides[d];
      } else if (c < 0 || c >= dims[d]) {
        outside = true;
      } else {
        offset += c * strides[d];
      }
    }
    if (outside) first = last = 0;
    BlockArgument fill{nullptr, true};
    float f = static_cast<float>(i.f);
    uint8_t bit = i.i != 0;
    fill.data = i.cls == Class::f32   ? static_cast<const void*>(&f)
                : i.cls == Class::f64 ? static_cast<const void*>(&i.f)
                : i.cls == Class::b8  ? static_cast<const void*>(&bit)
                                      : &i.i;
    const DType as = dtype_of(i.cls);
    if (first > 0) ops.store(as, out, 1, fill, first);
    if (last < n) ops.store(as, out + static_cast<size_t>(last) * element, 1, fill, n - last);
    if (first < last)
      ops.load(type, out + static_cast<size_t>(first) * element, from + offset * static_cast<int64_t>(memory), by * strides[static_cast<size_t>(p_.domain_rank - 1)], last - first);
    return;
  }
  for (int a = 0; a < p_.domain_rank; ++a) offset += (a < outer ? at[a] : row[a - outer]) * strides[static_cast<size_t>(a)];
  int64_t stride = strides[static_cast<size_t>(p_.domain_rank - 1)];
  if (i.in.empty()) return ops.load(type, out, from + offset * static_cast<int64_t>(memory), stride, n);
  bool all_uniform = true;
  for (uint32_t reg : i.in) all_uniform = all_uniform && b_.uniform[reg];
  offset += uniform_places(i);
  if (!all_uniform) return gather_piece(i, offset, n, out, done);
  ops.load(type, out, from + offset * static_cast<int64_t>(memory), stride, n);
}

// The address offset of one index, checked.
int64_t Evaluator::index_at(const ProgramInstruction& i, size_t k, int64_t e) const {
  const uint32_t reg = i.in[k];
  const size_t axis = static_cast<size_t>(p_.domain_rank) + i.axes[k];
  const int64_t v = static_cast<const int64_t*>(values_[reg].data)[b_.uniform[reg] ? 0 : e], extent = b_.dims[i.operand][axis];
  if (v < 0 || v >= extent) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, extent);
  return v * b_.strides[i.operand][axis];
}

// The address offsets of a block's indices.
void Evaluator::find_places(const ProgramInstruction& i, Value& v, int64_t* to, int64_t n) {
  v.data = to;
  int64_t base = 0;
  if (n == 0 && nothing(i.operand)) {
    *to = 0;
    return;
  }
  const bool uniform = to == reinterpret_cast<int64_t*>(&v.scalar);
  for (size_t k = 0; k < i.in.size(); ++k) {
    if (uniform || b_.uniform[i.in[k]]) base += index_at(i, k, 0);
  }
  if (uniform) {
    *to = base;
    return;
  }
  bool good = true, first = true;
  const auto rank = static_cast<size_t>(p_.domain_rank);
  const BlockOps& ops = block_ops();
  for (size_t k = 0; k < i.in.size(); ++k) {
    if (b_.uniform[i.in[k]]) continue;
    const size_t axis = rank + i.axes[k];
    const auto* indices = static_cast<const int64_t*>(values_[i.in[k]].data);
    const int64_t stride = b_.strides[i.operand][axis], extent = b_.dims[i.operand][axis];
    good = good && (first ? ops.set_places(to, base, indices, stride, extent, n) : ops.add_places(to, indices, stride, extent, n));
    first = false;
  }
  for (int64_t e = 0; !good && e < n; ++e) {
    for (size_t k = 0; k < i.in.size(); ++k) index_at(i, k, e);
  }
}

// The part of a load's offset that is constant in the block.
int64_t Evaluator::uniform_places(const ProgramInstruction& i) const {
  int64_t sum = 0;
  for (uint32_t in : i.in) {
    if (b_.uniform[in]) sum += *static_cast<const int64_t*>(values_[in].data);
  }
  return sum;
}

// Loads n elements at individual offsets, starting at element `done` of the block. `offset`: of the block's first element, without its indices.
void Evaluator::gather_piece(const ProgramInstruction& i, int64_t offset, int64_t n, void* to, int64_t done) {
  const DType type = p_.memory[i.operand];
  const int64_t stride = b_.strides[i.operand][static_cast<size_t>(p_.domain_rank) - 1];
  const std::byte* const from = data(i.operand) + offset * static_cast<int64_t>(ir::size_of(type));
  const BlockOps& ops = block_ops();
  const int64_t* places[16];
  int varying = 0;
  for (uint32_t in : i.in) {
    if (!b_.uniform[in]) places[varying++] = static_cast<const int64_t*>(values_[in].data) + done;
  }
  if (varying == 1 && stride == 0) return ops.gather(type, to, from, places[0], n);
  constexpr int64_t most = 256;
  int64_t sums[most];
  const size_t element = size_of(i.cls);
  for (int64_t start = 0; start < n; start += most) {
    const int64_t count = std::min(most, n - start);
    for (int64_t e = 0; e < count; ++e) sums[e] = (start + e) * stride + places[0][start + e];
    for (int v = 1; v < varying; ++v) {
      for (int64_t e = 0; e < count; ++e) sums[e] += places[v][start + e];
    }
    ops.gather(type, static_cast<std::byte*>(to) + static_cast<size_t>(start) * element, from, sums, count);
  }
}

void Evaluator::load(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n, void* to) {
  int64_t row[16];
  if (p_.row_rank == 1) {
    row[0] = begin;
    return load_piece(i, id, at, row, n, to, 0);
  }
  const int64_t* extent = b_.domain.data() + (p_.domain_rank - p_.row_rank);
  for (int64_t done = 0; done < n;) {
    int64_t rest = begin + done;
    for (int a = p_.row_rank - 1; a >= 0; --a) {
      const int64_t size = std::max<int64_t>(extent[a], 1);  // a value that is constant along the row is read even if the row is empty
      row[a] = rest % size;
      rest /= size;
    }
    int64_t run = std::min(n - done, std::max<int64_t>(extent[p_.row_rank - 1], 1) - row[p_.row_rank - 1]);
    load_piece(i, id, at, row, run, to, done);
    done += run;
  }
}

// Loads whole lines of an operand of joined short lines, n elements in all. An operand that is the same for all lines is repeated once per row.
void Evaluator::load_lines(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n) {
  Value& v = values_[id];
  const int64_t* strides = b_.strides[i.operand].data();
  const int before = p_.domain_rank - 2;
  const int64_t offset = offset_of(i.operand, at, before);
  const bool repeats = b_.repeats[id] != 0;
  if (repeats && v.started && v.best == offset) return;
  const DType type = p_.memory[i.operand];
  const auto memory = static_cast<int64_t>(ir::size_of(type)), stride = strides[before + 1];
  const size_t bytes = static_cast<size_t>(b_.line) * size_of(i.cls);
  const bool same = stride == 1 && lies_as_blocks(type);
  auto* to = static_cast<std::byte*>(repeats ? slot(id) : target(id, at, begin));
  v.data = to;
  auto line = [&](const std::byte* from) {
    if (same) {
      std::memcpy(to, from, bytes);
    } else {
      block_ops().load(type, to, from, stride, b_.line);
    }
    to += bytes;
  };
  const std::byte* from = data(i.operand) + (offset + begin / b_.line * strides[before]) * memory;
  if (!repeats) {
    for (int64_t done = 0; done < n; done += b_.line, from += strides[before] * memory) line(from);
    return;
  }
  line(from);
  for (int64_t more = static_cast<int64_t>(b_.block) / b_.line - 1; more > 0; --more, to += bytes) std::memcpy(to, to - bytes, bytes);
  v.best = offset;
  v.started = true;
}

// Stores whole lines with gaps between them.
void Evaluator::write_lines(const ProgramStore& st, const int64_t* at, int64_t begin, int64_t n) {
  const DType type = p_.memory[st.operand];
  const int64_t* strides = b_.strides[st.operand].data();
  const int before = p_.domain_rank - 2;
  const auto memory = static_cast<int64_t>(ir::size_of(type)), stride = strides[before + 1];
  const int64_t offset = offset_of(st.operand, at, before) + begin / b_.line * strides[before];
  BlockArgument x = argument(st.reg);
  const size_t bytes = x.uniform ? 0 : static_cast<size_t>(b_.line) * size_of(p_.code[st.reg].cls);
  const bool same = !x.uniform && stride == 1 && lies_as_blocks(type);
  std::byte* to = data(st.operand) + offset * memory;
  for (int64_t done = 0; done < n; done += b_.line, to += strides[before] * memory) {
    if (same) {
      std::memcpy(to, x.data, bytes);
    } else {
      block_ops().store(type, to, stride, x, b_.line);
    }
    x.data = static_cast<const std::byte*>(x.data) + bytes;
  }
}

// Common arithmetic on uniform values, without the tables of loops.
bool Evaluator::run_number(const ProgramInstruction& i, Value& v) const {
  if (i.op != Op::add && i.op != Op::sub && i.op != Op::mul && i.op != Op::div && i.op != Op::rsqrt) return false;
  float a = *static_cast<const float*>(values_[i.in[0]].data), r = 0;
  float b = i.in.size() > 1 ? *static_cast<const float*>(values_[i.in[1]].data) : 0;
  switch (i.op) {
    case Op::add: r = a + b; break;
    case Op::sub: r = a - b; break;
    case Op::mul: r = a * b; break;
    case Op::div: r = a / b; break;
    default: r = 1 / std::sqrt(a);
  }
  std::memcpy(&v.scalar, &r, sizeof r);
  v.data = &v.scalar;
  return true;
}

// True if the row is empty and this operand has no element for it, not even a constant one.
bool Evaluator::nothing(uint32_t operand) const {
  for (size_t d = 0; d < b_.dims[operand].size(); ++d) {
    if (b_.dims[operand][d] == 0 && b_.strides[operand][d] != 0) return true;
  }
  return false;
}

// The destination of an instruction's block: its slot, or the memory to which it is stored.
void* Evaluator::target(uint32_t id, const int64_t* at, int64_t begin) const {
  const uint8_t s = b_.in_place[id];
  if (s == 0 || !direct_) return slot(id);
  const ProgramStore& st = p_.stores[s - 1u];
  const int64_t offset = begin + offset_of(st.operand, at, p_.domain_rank - 1);
  return data(st.operand) + offset * static_cast<int64_t>(ir::size_of(p_.memory[st.operand]));
}

void Evaluator::copy(const int64_t* at, int64_t begin, int64_t n) {
  const ProgramStore& st = p_.stores[0];
  const ProgramInstruction& i = p_.code[st.reg];
  for (uint32_t k : b_.active) {
    if (k != st.reg) run(p_.code[k], k, at, begin, n);
  }
  const int64_t from = begin + uniform_places(i) + offset_of(i.operand, at, p_.domain_rank - 1), to = begin + offset_of(st.operand, at, p_.domain_rank - 1);
  const size_t size = ir::size_of(p_.memory[st.operand]);
  std::memmove(data(st.operand) + to * static_cast<int64_t>(size), data(i.operand) + from * static_cast<int64_t>(size), static_cast<size_t>(n) * size);
}

void Evaluator::run(const ProgramInstruction& i, uint32_t id, const int64_t* at, int64_t begin, int64_t n) {
  Value& v = values_[id];
  bool uniform = b_.uniform[id] != 0;
  int64_t count = uniform ? 1 : n;
  void* to = uniform ? static_cast<void*>(&v.scalar) : nullptr;
  switch (i.kind) {
    case Kind::literal:
    case Kind::size:
    case Kind::reduce: return;
    case Kind::place: return find_places(i, v, uniform ? reinterpret_cast<int64_t*>(&v.scalar) : reinterpret_cast<int64_t*>(slot(id)), n);
    case Kind::accumulator: v.data = accumulator_; return;
    case Kind::index: {
      int outer = p_.domain_rank - p_.row_rank;
      if (uniform) {
        v.data = &v.scalar;
        std::memcpy(&v.scalar, &at[i.axis], 8);
        return;
      }
      auto* d = reinterpret_cast<int64_t*>(slot(id));
      v.data = d;
      const int64_t* extent = b_.domain.data() + outer;
      int64_t inner = 1;
      for (int a = p_.row_rank - 1; a > i.axis - outer; --a) inner *= extent[a];
      int64_t size = extent[i.axis - outer];
      if (p_.row_rank == 1) {
        count_from(d, begin, n);
      } else {
        for (int64_t e = 0; e < n; ++e) d[e] = (begin + e) / inner % size;
      }
      return;
    }
    case Kind::load: {
      if (n == 0 && nothing(i.operand)) {
        v.scalar = 0;
        v.data = &v.scalar;
        return;
      }
      if (b_.straight[id] == Bound::inside) {
        if (const std::byte* there = whole(i, id, at, begin, n)) {
          v.data = there;
          return;
        }
      }
      if (b_.straight[id] == Bound::always || b_.straight[id] == Bound::looked_up) {
        const int64_t offset = (uniform ? 0 : begin) + offset_of(i.operand, at, p_.domain_rank - 1) + uniform_places(i);
        v.data = data(i.operand) + offset * static_cast<int64_t>(ir::size_of(p_.memory[i.operand]));
        return;
      }
      if (b_.line != 0 && !uniform) return load_lines(i, id, at, begin, n);
      if (to == nullptr) to = target(id, at, begin);
      v.data = to;
      if (uniform) return load(i, id, at, 0, 1, to);
      return load(i, id, at, begin, n, to);
    }
    case Kind::map: break;
  }
  if (uniform && i.cls == Class::f32 && run_number(i, v)) return;
  if (to == nullptr) to = target(id, at, begin);
  v.data = to;
  apply(i, id, to, count);
}

// Computes n elements of a map.
void Evaluator::apply(const ProgramInstruction& i, uint32_t id, void* to, int64_t count) {
  const BlockOps& ops = block_ops();
  const Together& together = b_.together[id];
  if (together.kind != Together::alone) return run_together(together, id, static_cast<float*>(to), count);
  BlockArgument in[3];
  for (size_t k = 0; k < i.in.size(); ++k) in[k] = argument(i.in[k]);
  if (i.op == Op::cast) return ops.cast(p_.code[i.in[0]].cls, i.dtype, to, in[0], count);
  if (i.op == Op::select) return ops.select(i.cls, to, in, count);
  if (ir::result_of(i.op) == ir::ResultType::boolean && i.op != Op::logical_not) {
    return ops.test(i.op, p_.code[i.in[0]].cls, static_cast<uint8_t*>(to), in, count);
  }
  switch (i.cls) {
    case Class::f32: return ops.map_f32(i.op, static_cast<float*>(to), in, count);
    case Class::f64: return ops.map_f64(i.op, static_cast<double*>(to), in, count);
    case Class::b8: return ops.map_b8(i.op, static_cast<uint8_t*>(to), in, count);
    default: return ops.map_int(i.cls, i.op, to, in, count, static_cast<int>(ir::size_of(i.dtype)) * 8, i.dtype != DType::u8);
  }
}

void Evaluator::run_together(const Together& t, uint32_t id, float* to, int64_t n) {
  static constexpr float nothing[2][5] = {{0, -0.0f, 1, -0.0f, 0}, {0, -0.0f, 1, 1, -0.0f}};
  const float* neutral = nothing[t.kind == Together::normalise];
  if (t.kind == Together::normalise && t.in[1] == Together::none) neutral = nothing[1];
  static constexpr float zero = 0;
  BlockArgument in[5];
  for (size_t k = 0; k < 5; ++k) {
    if (t.in[k] != Together::none) {
      in[k] = argument(t.in[k]);
    } else {
      // x - 0 and x + -0 return x unchanged, even a signed zero.
      in[k] = {t.kind == Together::normalise && k == 1 ? &zero : neutral + k, true};
    }
  }
  const BlockOps& ops = block_ops();
  switch (t.kind) {
    case Together::activate: return ops.activate(t.op, to, in, n);
    case Together::normalise: return ops.normalise(to, in, n);
    case Together::multiply_add: return ops.multiply_add(to, in, n);
    case Together::extreme: {
      const int count = static_cast<int>(std::find(t.in, t.in + 5, Together::none) - t.in);
      return ops.extreme(t.op, to, in, count, n);
    }
    case Together::divide: return ops.divide(to, static_cast<const float*>(in[0].data), *static_cast<const float*>(in[1].data), n);
    case Together::exp_sum: {
      float sum = ops.exp_sum(to, static_cast<const float*>(in[0].data), *static_cast<const float*>(in[1].data), n);
      std::memcpy(&values_[t.sum].scalar2, &sum, sizeof sum);
      return;
    }
    default: fail(Code::internal, "instruction {} of a fused step has no fused form", id);
  }
}

// Adds one block of the operand to a reduction that is summed together with what computes its operand. False if it is not.
bool Evaluator::accumulate_together(const ProgramInstruction& i, uint32_t id, int64_t n) {
  const Together& together = b_.together[id];
  Value& v = values_[id];
  const BlockOps& ops = block_ops();
  const bool has_middle = together.in[1] != Together::none;
  auto summand = [&] { return p_.code[together.in[0]].cls; };
  switch (together.kind) {
    case Together::exp_sum: {  // it was summed while it was computed
      float sum;
      std::memcpy(&sum, &v.scalar2, sizeof sum);
      v.sum += static_cast<double>(sum);
      return true;
    }
    case Together::product_sum:
      v.sum += static_cast<double>(ops.dot(static_cast<const float*>(argument(together.in[0]).data), static_cast<const float*>(argument(together.in[1]).data), n));
      return true;
    case Together::widened_sum: v.sum += ops.wide_sum(summand(), argument(together.in[0]).data, n); return true;
    case Together::square_sum:
      if (i.cls == Class::f64) {
        const double middle = has_middle ? *static_cast<const double*>(argument(together.in[1]).data) : 0;
        v.sum += ops.wide_square_sum(summand(), argument(together.in[0]).data, middle, n);
      } else {
        const float middle = has_middle ? *static_cast<const float*>(argument(together.in[1]).data) : 0;
        v.sum += static_cast<double>(ops.square_sum(static_cast<const float*>(argument(together.in[0]).data), middle, n));
      }
      return true;
    default: return false;
  }
}

// Continues argmax or argmin over the elements `at` .. at + n - 1.
template <class Element>
void Evaluator::find_extreme(Value& v, bool up, int64_t at, int64_t n, Element element) {
  for (int64_t e = 0; e < n; ++e) {
    bool better = !v.started;
    const auto now = element(e);
    if constexpr (std::is_integral_v<decltype(element(0))>) {
      const auto best = static_cast<int64_t>(v.scalar2);
      better = better || (up ? now > best : now < best);
      if (better) v.scalar2 = static_cast<uint64_t>(now);
    } else {
      better = better || (!std::isnan(v.sum) && (std::isnan(now) || (up ? now > v.sum : now < v.sum)));
      if (better) v.sum = now;
    }
    if (better) v.best = at + e;
    v.started = true;
  }
}

// Adds one block of the operand to a reduction.
void Evaluator::accumulate(const ProgramInstruction& i, uint32_t id, int64_t begin, int64_t n) {
  if (accumulate_together(i, id, n)) return;
  Value& v = values_[id];
  uint32_t from = i.in[0];
  BlockArgument x = argument(from);
  const BlockOps& ops = block_ops();
  Class c = p_.code[from].cls;
  auto f32 = [&](int64_t e) { return static_cast<const float*>(x.data)[x.uniform ? 0 : e]; };
  auto f64 = [&](int64_t e) { return static_cast<const double*>(x.data)[x.uniform ? 0 : e]; };
  auto i64 = [&](int64_t e) { return static_cast<const int64_t*>(x.data)[x.uniform ? 0 : e]; };
  auto b8 = [&](int64_t e) { return static_cast<const uint8_t*>(x.data)[x.uniform ? 0 : e]; };
  const bool up = i.reduction == Reduction::argmax || i.reduction == Reduction::max;
  if (i.reduction == Reduction::argmax || i.reduction == Reduction::argmin) {
    if (c == Class::f32 && !x.uniform && n > 0) {
      const auto* from32 = static_cast<const float*>(x.data);
      const float m = up ? ops.max_f32(from32, n) : ops.min_f32(from32, n);
      const auto now = static_cast<double>(m);
      if (!v.started || (!std::isnan(v.sum) && (std::isnan(now) || (up ? now > v.sum : now < v.sum)))) {
        v.sum = now;
        v.best = begin + ops.find_f32(from32, m, n);
      }
      v.started = true;
      return;
    }
    if (c == Class::i64 || c == Class::b8) return find_extreme(v, up, begin, n, [&](int64_t e) { return c == Class::i64 ? i64(e) : static_cast<int64_t>(b8(e)); });
    return find_extreme(v, up, begin, n, [&](int64_t e) { return c == Class::f32 ? static_cast<double>(f32(e)) : f64(e); });
  }
  if (c == Class::i64 || c == Class::b8) {
    const int64_t all = !x.uniform ? n : i.reduction == Reduction::sum || i.reduction == Reduction::prod ? 0 : 1;
    Value part{};
    part.started = true;
    part.best = all > 0 ? ops.fold(i.reduction, c, x.data, all) : i.reduction == Reduction::prod;
    const int64_t number = c == Class::b8 ? b8(0) : i64(0);
    for (int64_t e = all; x.uniform && i.reduction == Reduction::prod && e < n; ++e) part.best = ir::wrap(static_cast<__int128>(part.best) * number);
    if (x.uniform && i.reduction == Reduction::sum) part.best = ir::wrap(static_cast<__int128>(number) * n);
    return merge(i, v, part);
  }
  switch (i.reduction) {
    case Reduction::sum:
      if (b_.in_order) {
        for (int64_t e = 0; e < n; ++e) v.sum += c == Class::f32 ? static_cast<double>(f32(e)) : f64(e);
      } else if (c == Class::f32) {
        v.sum += x.uniform ? static_cast<double>(f32(0)) * static_cast<double>(n) : static_cast<double>(ops.sum_f32(static_cast<const float*>(x.data), n));
      } else {
        v.sum += x.uniform ? f64(0) * static_cast<double>(n) : ops.wide_sum(c, x.data, n);
      }
      return;
    case Reduction::prod:
      if (!v.started) v.sum = 1;
      if (!b_.in_order && !x.uniform) {
        v.sum *= ops.product(c, x.data, n);
      } else {
        for (int64_t e = 0; e < n; ++e) v.sum *= c == Class::f32 ? static_cast<double>(f32(e)) : f64(e);
      }
      v.started = true;
      return;
    default: {
      Value part{};
      part.started = true;
      if (c == Class::f32 && !x.uniform) {
        const auto* floats = static_cast<const float*>(x.data);
        part.sum = static_cast<double>(up ? ops.max_f32(floats, n) : ops.min_f32(floats, n));
        return merge(i, v, part);
      }
      for (int64_t e = 0; e < (x.uniform ? 1 : n); ++e) {
        part.sum = c == Class::f32 ? static_cast<double>(f32(e)) : f64(e);
        merge(i, v, part);
      }
    }
  }
}

// Adds the reduction of some elements, not none, to that of those before.
void Evaluator::merge(const ProgramInstruction& i, Value& to, const Value& part) const {
  if (!to.started && i.reduction != Reduction::sum) {
    const void* const data = to.data;
    to = part;
    to.data = data;
    return;
  }
  const Class c = p_.code[i.in[0]].cls;
  const bool floats = c == Class::f32 || c == Class::f64, up = i.reduction == Reduction::max || i.reduction == Reduction::argmax;
  switch (i.reduction) {
    case Reduction::sum:
      to.sum += part.sum;
      to.best = static_cast<int64_t>(static_cast<uint64_t>(to.best) + static_cast<uint64_t>(part.best));
      return;
    case Reduction::prod:
      to.sum *= part.sum;
      to.best = static_cast<int64_t>(static_cast<uint64_t>(to.best) * static_cast<uint64_t>(part.best));
      return;
    case Reduction::any:
    case Reduction::all: to.best |= part.best; return;
    default: break;
  }
  bool better;
  if (floats) {
    better = !std::isnan(to.sum) && (std::isnan(part.sum) || (up ? part.sum > to.sum : part.sum < to.sum));
  } else {
    const bool position = i.reduction == Reduction::argmax || i.reduction == Reduction::argmin;
    const int64_t now = position ? static_cast<int64_t>(part.scalar2) : part.best, best = position ? static_cast<int64_t>(to.scalar2) : to.best;
    better = up ? now > best : now < best;
  }
  if (better) to.sum = part.sum, to.best = part.best, to.scalar2 = part.scalar2;
}

void Evaluator::finish(const ProgramInstruction& i, uint32_t id) {
  Value& v = values_[id];
  v.data = &v.scalar;
  bool extreme = i.reduction == Reduction::max || i.reduction == Reduction::min;
  if (i.cls == Class::f32 || i.cls == Class::f64) {
    double r = v.sum;
    if (i.reduction == Reduction::prod && !v.started) r = 1;
    if (extreme && !v.started) r = i.reduction == Reduction::max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    if (i.cls == Class::f32) {
      auto f = static_cast<float>(r);
      std::memcpy(&v.scalar, &f, 4);
    } else {
      std::memcpy(&v.scalar, &r, 8);
    }
    return;
  }
  int64_t r = v.best;
  if (i.reduction == Reduction::prod && !v.started) r = 1;
  if (i.reduction == Reduction::all) r = r == 0;
  if (i.cls == Class::b8) {
    v.scalar = r != 0;
  } else {
    std::memcpy(&v.scalar, &r, 8);
  }
}

void Evaluator::write(size_t s, const int64_t* at, int64_t begin, int64_t n) {
  const ProgramStore& st = p_.stores[s];
  if (b_.in_place[st.reg] != 0 && direct_) return;  // it is there already
  const DType type = p_.memory[st.operand];
  std::byte* const into = data(st.operand);
  if (into == nullptr) return;  // an empty result has no memory
  const std::vector<int64_t>& strides = b_.strides[st.operand];
  int outer = p_.domain_rank - p_.row_rank;
  size_t memory = ir::size_of(type);
  const int64_t base = offset_of(st.operand, at, outer);
  BlockArgument x = argument(st.reg);
  const BlockOps& ops = block_ops();
  bool once = true;
  for (int a = outer; a < p_.domain_rank; ++a) once = once && b_.dims[st.operand][static_cast<size_t>(a)] == 1;
  if (once) {
    if (begin == 0) ops.store(type, into + base * static_cast<int64_t>(memory), 1, x, 1);
    return;
  }
  if (p_.row_rank == 1) {
    const int64_t stride = strides[static_cast<size_t>(outer)];
    return ops.store(type, into + (base + begin * stride) * static_cast<int64_t>(memory), stride, x, n);
  }
  if (b_.line != 0) {
    if (is_solid(b_, p_, st.operand)) return ops.store(type, into + (base + begin) * static_cast<int64_t>(memory), 1, x, n);
    return write_lines(st, at, begin, n);
  }
  size_t element = x.uniform ? 0 : size_of(p_.code[st.reg].cls);
  const int64_t* extent = b_.domain.data() + outer;
  for (int64_t done = 0; done < n;) {
    int64_t rest = begin + done, offset = base, inner = 0;
    for (int a = p_.row_rank - 1; a >= 0; --a) {
      int64_t c = rest % extent[a];
      if (a == p_.row_rank - 1) inner = c;
      offset += c * strides[static_cast<size_t>(outer + a)];
      rest /= extent[a];
    }
    int64_t run = std::min(n - done, extent[p_.row_rank - 1] - inner);
    BlockArgument piece{static_cast<const std::byte*>(x.data) + static_cast<size_t>(done) * element, x.uniform};
    ops.store(type, into + offset * static_cast<int64_t>(memory), strides[static_cast<size_t>(p_.domain_rank - 1)], piece, run);
    done += run;
  }
}

void Evaluator::segment(const int64_t* at, int64_t begin, int64_t n, const void* accumulator, void* out) {
  accumulator_ = accumulator;
  direct_ = out == nullptr;
  for (uint32_t k : b_.active) run(p_.code[k], k, at, begin, n);
  if (out != nullptr) {
    block_ops().store(p_.memory[p_.stores[0].operand], out, 1, argument(p_.stores[0].reg), n);
    return;
  }
  for (size_t s = 0; s < p_.stores.size(); ++s) write(s, at, begin, n);
}

void Evaluator::start_reductions() {
  for (uint32_t k : b_.reductions) {
    Value& v = values_[k];
    v.sum = 0;
    v.best = 0;
    v.started = false;
  }
}

// The number of parts depends on the row's length, not on threads or on other rows, so that results do not either.
int64_t parts_of_row(const Bound& b) {
  constexpr int64_t part = 8192, most = 16;
  const Program& p = *b.program;
  if (!p.has_reductions || b.across != 0 || b.in_order) return 1;
  int64_t length = 1;
  for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) length *= b.domain[static_cast<size_t>(a)];
  if (length < 2 * part) return 1;
  for (uint32_t k : b.reductions) {
    if (p.code[k].stage != 0) return 1;
  }
  for (const ProgramStore& s : p.stores) {
    if (!b.uniform[s.reg]) return 1;
    for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) {
      if (b.dims[s.operand][static_cast<size_t>(a)] != 1) return 1;
    }
  }
  return std::min(most, length / part);
}

void Evaluator::part_of_row(const int64_t* at, int64_t part, int64_t parts, std::byte* to) {
  int64_t length = 1;
  for (int a = p_.domain_rank - p_.row_rank; a < p_.domain_rank; ++a) length *= b_.domain[static_cast<size_t>(a)];
  const auto block = static_cast<int64_t>(b_.block);
  const int64_t end = length * (part + 1) / parts;
  start_reductions();
  for (int64_t begin = length * part / parts; begin < end; begin += block) {
    const int64_t n = std::min(block, end - begin);
    for (uint32_t k : b_.active) {
      const ProgramInstruction& i = p_.code[k];
      if (i.stage == 0) i.kind == Kind::reduce ? accumulate(i, k, begin, n) : run(i, k, at, begin, n);
    }
  }
  for (size_t r = 0; r < b_.reductions.size(); ++r) std::memcpy(to + r * state_bytes, &values_[b_.reductions[r]], sizeof(Value));
}

void Evaluator::row_of_parts(const int64_t* at, int64_t parts, const std::byte* states) {
  direct_ = true;
  start_reductions();
  for (int64_t part = 0; part < parts; ++part) {
    for (uint32_t k : b_.reductions) {
      Value of_part;
      std::memcpy(&of_part, states, sizeof of_part);
      merge(p_.code[k], values_[k], of_part);
      states += state_bytes;
    }
  }
  for (uint32_t k : b_.active) {
    const ProgramInstruction& i = p_.code[k];
    if (i.kind == Kind::reduce) {
      finish(i, k);
    } else if (b_.uniform[k]) {
      run(i, k, at, 0, 1);
    }
  }
  for (size_t s = 0; s < p_.stores.size(); ++s) write(s, at, 0, 1);
}

void Evaluator::row(const int64_t* at) {
  int64_t length = 1;
  for (int a = p_.domain_rank - p_.row_rank; a < p_.domain_rank; ++a) length *= b_.domain[static_cast<size_t>(a)];
  auto block = static_cast<int64_t>(b_.block);
  direct_ = true;
  start_reductions();
  if (length <= block) {  // one block: everything once, in order
    for (uint32_t k : b_.each_row) {
      const ProgramInstruction& i = p_.code[k];
      if (i.kind == Kind::reduce) {
        if (length > 0) accumulate(i, k, 0, length);
        finish(i, k);
      } else if (length > 0 || b_.uniform[k]) {
        run(i, k, at, 0, length);
      }
    }
    if (length > 0 || !p_.has_reductions) {
      for (size_t s = 0; s < p_.stores.size(); ++s) write(s, at, 0, length);
    } else {
      for (size_t s = 0; s < p_.stores.size(); ++s) write(s, at, 0, 0);
    }
    return;
  }
  // Long rows: one pass over the blocks for each stage; values that a later stage needs are recomputed. A result of the
  // last stage is known when its pass is over.
  auto ends_with = [&](size_t s) {
    const ProgramInstruction& i = p_.code[p_.stores[s].reg];
    return i.kind == Kind::reduce && i.stage + 1 == p_.stages;
  };
  for (int stage = 0; stage < p_.stages; ++stage) {
    bool last = stage + 1 == p_.stages;
    for (int64_t begin = 0; begin < length; begin += block) {
      int64_t n = std::min(block, length - begin);
      for (uint32_t k : b_.passes[static_cast<size_t>(stage)]) {
        const ProgramInstruction& i = p_.code[k];
        if (i.stage > stage) continue;
        if (i.kind == Kind::reduce) {
          if (i.stage == stage) accumulate(i, k, begin, n);
        } else {
          run(i, k, at, begin, n);
        }
      }
      for (size_t s = 0; last && s < p_.stores.size(); ++s) {
        if (!ends_with(s)) write(s, at, begin, n);
      }
    }
    for (uint32_t k : b_.reductions) {
      if (p_.code[k].stage == stage) finish(p_.code[k], k);
    }
    for (size_t s = 0; last && s < p_.stores.size(); ++s) {
      if (ends_with(s)) write(s, at, 0, length);
    }
  }
}

const BlockOps& block_ops() {
  static const BlockOps& chosen = []() -> const BlockOps& {
    switch (backend::cpu::isa()) {
      case backend::cpu::Isa::amx_bf16:
      case backend::cpu::Isa::avx512_bf16:
      case backend::cpu::Isa::avx512: return block_ops_avx512;
      case backend::cpu::Isa::avx2: return block_ops_avx2;
      default: return block_ops_portable;
    }
  }();
  return chosen;
}

}  // namespace ingot::kernels
