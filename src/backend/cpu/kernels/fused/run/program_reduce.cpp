// Reductions along a row: what they take of each block, and the parts of a long row.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"
#include "ir/scalar_functions.h"

namespace ingot::kernels {

void Evaluator::start_reductions() {
  for (uint32_t k : b_.reductions) {
    Value& v = values_[k];
    v.sum = 0;
    v.best = 0;
    v.started = false;
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
      if (i.cls == Class::f64) {
        v.sum += ops.wide_dot(static_cast<const double*>(argument(together.in[0]).data), static_cast<const double*>(argument(together.in[1]).data), n);
        return true;
      }
      v.sum += static_cast<double>(ops.dot(static_cast<const float*>(argument(together.in[0]).data), static_cast<const float*>(argument(together.in[1]).data), n));
      return true;
    case Together::half_sum: v.sum += static_cast<double>(ops.sum_halves(together.memory, argument(together.in[0]).data, n)); return true;
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
      if (c == Class::f64 && !x.uniform && n > 0) {
        part.sum = ops.extreme_f64(up, static_cast<const double*>(x.data), n);
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

// The number of parts depends on the row's length, not on threads or on other rows, so that results do not either.
int64_t parts_of_row(const Bound& b) {
  const Program& p = *b.program;
  if (!p.has_reductions || b.across != 0 || b.in_order) return 1;
  int64_t length = 1;
  for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) length *= b.domain[static_cast<size_t>(a)];
  if (length < 2 * fused_tuning::part_of_row) return 1;
  for (uint32_t k : b.reductions) {
    if (p.code[k].stage != 0) return 1;
  }
  for (const ProgramStore& s : p.stores) {
    if (!b.uniform[s.reg]) return 1;
    for (int a = p.domain_rank - p.row_rank; a < p.domain_rank; ++a) {
      if (b.dims[s.operand][static_cast<size_t>(a)] != 1) return 1;
    }
  }
  return std::min(fused_tuning::max_parts, length / fused_tuning::part_of_row);
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

}  // namespace ingot::kernels
