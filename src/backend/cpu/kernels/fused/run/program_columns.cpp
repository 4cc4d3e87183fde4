// Reductions whose rows lie apart in memory, for a block of columns at a time.
#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/kernels/fused/run/program.h"

namespace ingot::kernels {

namespace {

// Instructions whose value differs along the reduced axes.
std::vector<uint8_t> varying(const Bound& b, const Program& p, int first, int end) {
  std::vector<uint8_t> out(p.code.size(), 0);
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::reduce) continue;
    for (uint32_t in : i.in) out[k] |= out[in];
    if (i.kind == Kind::index) out[k] = i.axis >= first && i.axis < end;
    for (int a = first; i.kind == Kind::load && a < end; ++a) {
      const auto d = static_cast<size_t>(a);
      if (b.domain[d] > 1 && (b.strides[i.operand][d] != 0 || !i.lower.empty())) out[k] = 1;
    }
  }
  return out;
}

// True if each reduction is one of those below, of what varies and needs no other reduction, and nothing else behind them varies.
bool is_one_pass(const Program& p, const std::vector<uint8_t>& varies) {
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind != Kind::reduce) {
      if (i.stage > 0 && varies[k] != 0) return false;
      continue;
    }
    const bool known = i.reduction == Reduction::sum || i.reduction == Reduction::max || i.reduction == Reduction::min;
    if (!known || (i.cls != Class::f32 && i.cls != Class::f64) || i.stage > 0) return false;
  }
  return std::all_of(p.stores.begin(), p.stores.end(), [&](const ProgramStore& s) { return varies[s.reg] == 0; });
}

}  // namespace

void turn_to_columns(Bound& b, Program& p) {
  const int first = p.domain_rank - p.row_rank, column = first - 1;
  if (!p.has_reductions || p.has_accumulator || column < 0) return;
  int64_t row = 1;
  for (int a = first; a < p.domain_rank; ++a) row *= b.domain[static_cast<size_t>(a)];
  const int64_t columns = b.domain[static_cast<size_t>(column)];
  constexpr int64_t few = 8, short_row = 32;
  if (row == 0 || columns < few) return;
  const std::vector<uint8_t> varies = varying(b, p, first, p.domain_rank);
  if (!is_one_pass(p, varies)) return;
  for (const ProgramStore& s : p.stores) {  // once for each row
    for (int a = first; a < p.domain_rank; ++a) {
      if (b.dims[s.operand][static_cast<size_t>(a)] != 1) return;
    }
  }
  int beside = 0, along = 0;
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.kind != Kind::load || varies[k] == 0) continue;
    beside += b.strides[i.operand][static_cast<size_t>(column)] == 1;
    along += b.strides[i.operand][static_cast<size_t>(p.domain_rank - 1)] == 1;
  }
  if (beside <= along && (row > short_row || columns < 2 * row)) return;
  if (beside < along) return;
  // The axes of the row move in front of the column's.
  auto turn = [&](auto& of) { std::rotate(of.begin() + column, of.begin() + first, of.begin() + p.domain_rank); };
  turn(b.domain);
  for (size_t k = 0; k < b.strides.size(); ++k) {
    turn(b.strides[k]);
    turn(b.dims[k]);
  }
  for (size_t k = 0; k < p.code.size(); ++k) {
    ProgramInstruction& i = p.code[k];
    if (i.kind == Kind::index) i.axis = static_cast<uint8_t>(i.axis == column ? p.domain_rank - 1 : i.axis > column ? i.axis - 1 : i.axis);
    for (auto* of : {&b.lower[k], &b.step[k]}) {
      if (!of->empty()) turn(*of);
    }
  }
  b.reduced = p.row_rank;
  p.row_rank = 1;
  b.stepped.assign(p.code.size(), 0);
  for (size_t k = p.code.size(); k-- > 0;) {
    if (p.code[k].kind == Kind::reduce) b.stepped[k] = 1;
    for (uint32_t in : p.code[k].in) b.stepped[in] |= b.stepped[k];
  }
}

void Evaluator::start_columns(uint32_t id, int64_t n) {
  const ProgramInstruction& i = p_.code[id];
  values_[id].data = slot(id);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double first = i.reduction == Reduction::sum ? 0 : i.reduction == Reduction::max ? -infinity : infinity;
  if (i.cls == Class::f32 && i.reduction != Reduction::sum) {
    std::fill_n(reinterpret_cast<float*>(slot(id)), n, static_cast<float>(first));
  } else {
    std::fill_n(reinterpret_cast<double*>(slot(id)), n, first);
  }
}

void Evaluator::accumulate_columns(uint32_t id, int64_t n) {
  const ProgramInstruction& i = p_.code[id];
  const BlockArgument x = argument(i.in[0]);
  const bool sum = i.reduction == Reduction::sum;
  if (i.cls == Class::f32 && !x.uniform) {
    const auto* from = static_cast<const float*>(x.data);
    if (sum) return block_ops().add_rows(reinterpret_cast<double*>(slot(id)), from, n, 1, n);
    return block_ops().max_rows(reinterpret_cast<float*>(slot(id)), from, n, 1, n, i.reduction == Reduction::min);
  }
  auto each = [&](auto* to, const auto* from) {
    for (int64_t e = 0; e < n; ++e) {
      const auto now = from[x.uniform ? 0 : e];
      if (sum) {
        to[e] += now;
      } else if (now != now || (i.reduction == Reduction::max ? now > to[e] : now < to[e])) {
        to[e] = now;
      }
    }
  };
  if (i.cls == Class::f64) return each(reinterpret_cast<double*>(slot(id)), static_cast<const double*>(x.data));
  if (sum) return each(reinterpret_cast<double*>(slot(id)), static_cast<const float*>(x.data));
  each(reinterpret_cast<float*>(slot(id)), static_cast<const float*>(x.data));
}

void Evaluator::finish_columns(uint32_t id, int64_t n) {
  const ProgramInstruction& i = p_.code[id];
  if (i.cls != Class::f32 || i.reduction != Reduction::sum) return;
  for (int64_t e = 0; e < n; ++e) {  // in place, from the front
    double sum;
    std::memcpy(&sum, slot(id) + 8 * e, sizeof sum);
    const auto rounded = static_cast<float>(sum);
    std::memcpy(slot(id) + 4 * e, &rounded, sizeof rounded);
  }
}

void Evaluator::columns(int64_t* at, int64_t begin, int64_t n) {
  const int end = p_.domain_rank - 1, first = end - b_.reduced;
  const int64_t* extent = b_.domain.data();
  direct_ = true;
  std::fill(at + first, at + end, int64_t{0});
  for (uint32_t k : b_.reductions) start_columns(k, n);
  // One load that is summed where it lies: all of the last reduced axis at once.
  const uint32_t one = b_.each_step[0];
  const bool plain = b_.each_step.size() == 2 && b_.straight[one] == Bound::always && b_.uniform[one] == 0 && p_.code[b_.each_step[1]].cls == Class::f32;
  int64_t steps = 1;
  for (int a = first; a < end - plain; ++a) steps *= extent[a];
  for (int64_t s = 0; s < steps; ++s) {
    for (uint32_t k : b_.each_step) {
      const ProgramInstruction& i = p_.code[k];
      if (i.kind != Kind::reduce) {
        run(i, k, at, begin, n);
      } else if (plain) {
        const auto* from = static_cast<const float*>(values_[one].data);
        const int64_t step = b_.strides[p_.code[one].operand][static_cast<size_t>(end - 1)], rows = extent[end - 1];
        if (i.reduction == Reduction::sum) {
          block_ops().add_rows(reinterpret_cast<double*>(slot(k)), from, step, rows, n);
        } else {
          block_ops().max_rows(reinterpret_cast<float*>(slot(k)), from, step, rows, n, i.reduction == Reduction::min);
        }
      } else {
        accumulate_columns(k, n);
      }
    }
    for (int a = end - 1 - plain; a >= first && ++at[a] == extent[a]; --a) at[a] = 0;
  }
  for (uint32_t k : b_.reductions) finish_columns(k, n);
  for (uint32_t k : b_.active) run(p_.code[k], k, at, begin, n);
  for (size_t s = 0; s < p_.stores.size(); ++s) write(s, at, begin, n);
}

}  // namespace ingot::kernels
