// Reduces many rows at once: blocks run along an outer axis, and each step adds one element of each row. For rows that are short or strided.
#include <algorithm>
#include <cstring>
#include <optional>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

using ir::DType;

// Converts the reduction's state to a block of the result's class.
void Evaluator::finish_across(const ProgramInstruction& i, uint32_t id, int64_t n) {
  const bool added = i.reduction == Reduction::sum || i.reduction == Reduction::prod;
  std::byte* const so_far = block(i.so_far);
  std::byte* const to = slot(id);
  if (added && i.cls == Class::f32) {
    block_ops().cast(Class::f64, DType::f32, to, {so_far, false}, n);
  } else if (i.reduction != Reduction::argmax && i.reduction != Reduction::argmin) {  // positions are stored already
    std::memcpy(to, so_far, static_cast<size_t>(n) * size_of(i.cls));
  }
}

namespace {

// A stage that only sums contiguous floats, doubles or halves of rows; only floats have places or factors.
struct PlainSum {
  const ProgramInstruction* reduction;
  const ProgramInstruction* rows;
  const ProgramInstruction* at = nullptr;  // where the rows are, if they are looked up
  const ProgramInstruction* by = nullptr;  // a factor for each
  const ProgramInstruction* when = nullptr;  // false for rows that are left out
};

// A load of one element for each row from memory of its own type.
bool loads_one(const Bound& b, uint32_t k, Class c, DType type) {
  const ProgramInstruction& i = b.program->code[k];
  return i.kind == Kind::load && i.cls == c && b.program->memory[i.operand] == type && i.in.empty() && i.lower.empty() && b.uniform[k] != 0;
}

std::optional<PlainSum> plain_sum(const Bound& b, int stage) {
  const Program& p = *b.program;
  const ProgramInstruction* reduction = nullptr;
  const Together* together = nullptr;
  for (uint32_t k : b.reductions) {
    if (p.code[k].stage != stage) continue;
    if (reduction != nullptr) return std::nullopt;
    reduction = &p.code[k];
    together = &b.together[k];
  }
  if (reduction == nullptr || reduction->reduction != Reduction::sum || !(reduction->cls == Class::f32 || reduction->cls == Class::f64)) return std::nullopt;
  PlainSum out{reduction, &p.code[reduction->in[0]]};
  if (together->kind == Together::weighed_sum) {
    uint32_t x = together->in[0], w = together->in[1];
    const uint32_t when = together->in[2];
    if (when != Together::none) {
      if (!loads_one(b, when, Class::b8, DType::b8)) return std::nullopt;
      out.when = &p.code[when];
    }
    if (w != Together::none) {
      if (b.uniform[x] != 0) std::swap(x, w);
      if (!loads_one(b, w, Class::f32, DType::f32)) return std::nullopt;
      out.by = &p.code[w];
    }
    out.rows = &p.code[x];
  }
  const ProgramInstruction& load = *out.rows;
  if (load.kind != Kind::load || load.cls != reduction->cls || !load.lower.empty() || load.in.size() > 1 || b.strides[load.operand][b.domain.size() - 1] != 1) return std::nullopt;
  if (p.memory[load.operand] != DType::f32 && (out.by != nullptr || out.when != nullptr || !load.in.empty())) return std::nullopt;
  if (load.in.empty()) return out;
  out.at = &p.code[load.in[0]];  // a computed offset, already checked
  return loads_one(b, load.in[0], Class::i64, DType::i64) ? std::optional(out) : std::nullopt;
}

constexpr float one = 1;

// Sums some of the rows: their places are listed first.
void take_some_rows(double* so_far, const SummedRows& rows, const std::byte* when, int64_t when_step, int64_t places, bool first, int64_t n) {
  constexpr int64_t capacity = fused_tuning::listed_rows;
  int64_t at[capacity];
  float by[capacity];
  for (int64_t done = 0; done < places || first;) {
    int64_t count = 0;
    for (; done < places && count < capacity; ++done) {
      if (when[done * when_step] == std::byte{0}) continue;
      at[count] = done * rows.step + (rows.at != nullptr ? rows.at[done * rows.at_step] : 0);
      if (rows.by != nullptr) by[count] = rows.by[done * rows.by_step];
      ++count;
    }
    block_ops().take_rows(so_far, {rows.from, 0, at, 1, rows.by != nullptr ? by : nullptr, 1}, count, first, n);
    first = false;
  }
}

}  // namespace

// The number of parts depends on the places of a sum and on the length of the innermost axis, not on threads or on other rows, so that results do not either. Where the innermost
// axis may be the batch, deterministic="batch" asks for sums in order.
int64_t sums_across(const Bound& b) {
  using namespace fused_tuning;
  if (b.program->in_order || !b.transposed.empty() || b.across != 1 || b.program->row_rank != 1 || b.places * b.domain.back() < elements_in_parts) return 1;
  const std::optional<PlainSum> sum = plain_sum(b, 0);
  if (!sum || sum->at != nullptr || sum->when != nullptr) return 1;
  int64_t parts = b.places < places_of_part ? 1 : 2;
  while (parts < max_parts && b.places >= 2 * parts * places_of_part) parts *= 2;
  return parts;
}

void Evaluator::sum_across(const int64_t* at, int64_t part, int64_t parts, double* to) const {
  const std::optional<PlainSum> sum = plain_sum(b_, 0);
  const int64_t begin = b_.places * part / parts;
  auto step = [&](const ProgramInstruction* load) { return b_.strides[load->operand][static_cast<size_t>(p_.domain_rank) - 2]; };
  auto from = [&](const ProgramInstruction* load) {
    return data(load->operand) + (offset_of(load->operand, at, p_.domain_rank - 2) + begin * step(load)) * static_cast<int64_t>(ir::size_of(p_.memory[load->operand]));
  };
  SummedRows rows{from(sum->rows), step(sum->rows)};
  rows.type = p_.memory[sum->rows->operand];
  if (sum->by != nullptr) rows.by = reinterpret_cast<const float*>(from(sum->by)), rows.by_step = step(sum->by);
  block_ops().take_rows(to, rows, b_.places * (part + 1) / parts - begin, true, b_.domain.back());
}

// A stage that only sums contiguous floats runs without blocks. False if the stage does more. `sums`: what sum_across gave, if not empty.
bool Evaluator::sum_rows_across(int stage, int64_t* at, int64_t begin, int64_t n, std::span<const double> sums) {
  const std::optional<PlainSum> sum = plain_sum(b_, stage);
  if (!sum || nothing(sum->rows->operand)) return false;
  double* const so_far = reinterpret_cast<double*>(block(sum->reduction->so_far));
  if (stage == 0 && !sums.empty()) {
    const auto length = static_cast<size_t>(b_.domain.back());
    std::fill(so_far, so_far + n, 0.0);
    for (; !sums.empty(); sums = sums.subspan(length)) {
      for (int64_t i = 0; i < n; ++i) so_far[i] += sums[static_cast<size_t>(begin + i)];
    }
    return true;
  }
  const int innermost = p_.domain_rank - 1, last_axis = innermost - 1, first_axis = last_axis - b_.across + 1;
  auto step_of = [&](const ProgramInstruction& load) { return b_.strides[load.operand][static_cast<size_t>(last_axis)]; };
  const int64_t run = b_.domain[static_cast<size_t>(last_axis)];
  for (int64_t place = 0; place < b_.places; place += run) {
    const DType type = p_.memory[sum->rows->operand];
    SummedRows rows{data(sum->rows->operand) + (offset_of(sum->rows->operand, at, innermost) + begin) * static_cast<int64_t>(ir::size_of(type)), step_of(*sum->rows)};
    rows.type = type;
    if (sum->at != nullptr) {
      rows.at = reinterpret_cast<const int64_t*>(data(sum->at->operand)) + offset_of(sum->at->operand, at, innermost);
      rows.at_step = step_of(*sum->at);
    }
    if (sum->by != nullptr) {
      rows.by = reinterpret_cast<const float*>(data(sum->by->operand)) + offset_of(sum->by->operand, at, innermost);
      rows.by_step = step_of(*sum->by);
    }
    if (sum->when != nullptr) {
      take_some_rows(so_far, rows, data(sum->when->operand) + offset_of(sum->when->operand, at, innermost), step_of(*sum->when), run, place == 0, n);
    } else {
      block_ops().take_rows(so_far, rows, run, place == 0, n);
    }
    for (int a = last_axis - 1; a >= first_axis && ++at[a] == b_.domain[static_cast<size_t>(a)]; --a) at[a] = 0;
  }
  return true;
}

// One pass over the row for each stage; values that a later stage needs are recomputed. If nothing is reduced any more and nothing is written
// along the row, only its first element is computed.
void Evaluator::across(int64_t* at, int64_t begin, int64_t n, std::span<const double> sums) {
  const int last_axis = p_.domain_rank - 2, first_axis = last_axis - b_.across + 1;
  const bool nothing_along = std::all_of(b_.once.begin(), b_.once.end(), [](uint8_t once) { return once != 0; });
  direct_ = true;
  for (int stage = 0; stage < p_.stages; ++stage) {
    const bool last = stage + 1 == p_.stages;
    const bool reduces = std::any_of(b_.reductions.begin(), b_.reductions.end(), [&](uint32_t k) { return p_.code[k].stage == stage; });
    const int64_t places = last && !reduces && nothing_along ? 1 : b_.places;
    auto is_later = [&](size_t s) { return b_.once[s] != 0 || (p_.code[p_.stores[s].reg].kind == Kind::reduce && reduces); };
    std::fill(at + first_axis, at + last_axis + 1, 0);
    bool writes = false;
    for (size_t s = 0; last && s < p_.stores.size(); ++s) writes = writes || !is_later(s);
    const bool summed = places > 0 && !writes && sum_rows_across(stage, at, begin, n, sums);
    for (int64_t place = 0; place < (summed ? 0 : places); ++place) {
      for (uint32_t k : b_.passes[static_cast<size_t>(stage)]) {
        const ProgramInstruction& i = p_.code[k];
        if (i.stage > stage) continue;
        if (i.kind != Kind::reduce) {
          run(i, k, at, begin, n);
        } else if (i.stage == stage && b_.together[k].kind == Together::weighed_sum) {
          const uint32_t* in = b_.together[k].in;
          const BlockArgument w = in[1] == Together::none ? BlockArgument{&one, true} : argument(in[1]),
                              c = in[2] == Together::none ? BlockArgument{nullptr, true} : argument(in[2]);
          block_ops().take_weighed(reinterpret_cast<double*>(block(i.so_far)), argument(in[0]), w, c, place == 0, n);
        } else if (i.stage == stage) {
          block_ops().take(i.reduction, p_.code[i.in[0]].cls, block(i.so_far), reinterpret_cast<int64_t*>(slot(k)), argument(i.in[0]), place, n);
        }
      }
      for (size_t s = 0; last && s < p_.stores.size(); ++s) {
        if (!is_later(s)) write(s, at, begin, n);
      }
      for (int a = last_axis; a >= first_axis && ++at[a] == b_.domain[static_cast<size_t>(a)]; --a) at[a] = 0;
    }
    for (uint32_t k : b_.reductions) {
      if (p_.code[k].stage != stage) continue;
      finish_across(p_.code[k], k, n);
      values_[k].data = slot(k);
    }
    std::fill(at + first_axis, at + last_axis + 1, 0);
    for (size_t s = 0; last && s < p_.stores.size(); ++s) {
      if (!is_later(s)) continue;
      for (int64_t place = 0; place < (b_.once[s] != 0 ? 1 : b_.places); ++place) {
        write(s, at, begin, n);
        for (int a = last_axis; a >= first_axis && ++at[a] == b_.domain[static_cast<size_t>(a)]; --a) at[a] = 0;
      }
    }
  }
}

}  // namespace ingot::kernels
