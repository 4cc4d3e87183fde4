// Evaluates a bound program, one row or one segment of a row at a time. program_memory.cpp reads and writes, program_reduce.cpp reduces.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/run/isa.h"
#include "base/error.h"

namespace ingot::kernels {

using ir::DType;
using ir::Op;

Evaluator::Evaluator(const Bound& bound, std::span<const TensorRef> operands, std::byte* scratch, std::byte* const* held)
    : b_(bound), p_(*bound.program), operands_{operands, held}, values_(reinterpret_cast<Value*>(scratch)) {
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

BlockArgument Evaluator::argument(uint32_t reg) const {
  const void* const data = values_[reg].data;
  const bool uniform = b_.uniform[reg] != 0;
  if (row_ == only_row) return {data, uniform};
  if (row_ == each_row) return {data, uniform && b_.differs[reg] == 0};
  return {static_cast<const std::byte*>(data) + row_ * b_.row_bytes[reg], uniform};
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
  if (b_.together[id].kind == Together::places) return compare_places(b_.together[id], static_cast<uint8_t*>(to), begin, n);
  apply(i, id, to, count);
}

// The places from `begin` on that satisfy an ordering are some of the first ones, or of the last.
void Evaluator::compare_places(const Together& t, uint8_t* to, int64_t begin, int64_t n) const {
  auto number = [&](uint32_t reg) -> __int128 { return reg == Together::none ? 0 : *static_cast<const int64_t*>(argument(reg).data); };
  const __int128 bound = number(t.in[0]), by = number(t.in[1]);
  const bool falls = t.pass == Pass::neg, less = t.op == Op::lt || t.op == Op::le, strict = t.op == Op::lt || t.op == Op::gt;
  // place + by, place - by or by - place, compared with the bound: place compared with `limit`.
  const __int128 limit = t.pass == Pass::add ? bound - by : falls ? by - bound : bound + by;
  const bool first_ones = less != falls;
  // The first place that has the other answer.
  const __int128 change = limit + (first_ones == strict ? 0 : 1) - begin;
  const auto count = static_cast<size_t>(std::clamp<__int128>(change, 0, n));
  std::memset(to, first_ones ? 1 : 0, count);
  std::memset(to + count, first_ones ? 0 : 1, static_cast<size_t>(n) - count);
}

// Computes n elements of a map.
void Evaluator::apply(const ProgramInstruction& i, uint32_t id, void* to, int64_t count) {
  const BlockOps& ops = block_ops();
  const Together& together = b_.together[id];
  BlockArgument in[3];
  if (together.kind == Together::one_pass) {
    for (size_t k = 0; k < 3 && together.in[k] != Together::none; ++k) in[k] = argument(together.in[k]);
    return ops.pass(together.pass, together.memory, to, in, count);
  }
  if (together.kind != Together::alone) return run_together(together, id, static_cast<float*>(to), count);
  for (size_t k = 0; k < i.in.size(); ++k) in[k] = argument(i.in[k]);
  if (i.op == Op::cast) return ops.cast(p_.code[i.in[0]].cls, i.dtype, to, in[0], count);
  if (i.op == Op::bitcast) {  // blocks of integers are what floats are in memory
    const DType from = p_.code[i.in[0]].dtype;
    return ir::is_float(from) ? ops.store(from, to, 1, in[0], count) : ops.load(i.dtype, to, in[0].data, in[0].uniform ? 0 : 1, count);
  }
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
  static const BlockOps& chosen = INGOT_TABLES(block_ops).best();
  return chosen;
}

}  // namespace ingot::kernels
