#include "backend/cpu/kernels/fused/run/row_body.h"

#include <algorithm>
#include <array>
#include <limits>

#include "backend/cpu/kernels/fused/run/tuning.h"

namespace ingot::kernels {

namespace {

using ir::Op;
using Step = RowSteps::Step;

std::optional<RowSteps::Kind> kind_of(Op op) {
  switch (op) {
    case Op::add: return RowSteps::add;
    case Op::sub: return RowSteps::sub;
    case Op::mul: return RowSteps::mul;
    case Op::div: return RowSteps::div;
    case Op::min: return RowSteps::min;
    case Op::max: return RowSteps::max;
    case Op::neg: return RowSteps::neg;
    case Op::abs: return RowSteps::abs;
    case Op::relu: return RowSteps::relu;
    default: return std::nullopt;
  }
}

class Maker {
 public:
  explicit Maker(const Bound& b) : b_(b), p_(*b.program), out_{.walk = RowWalk(b), .steps = {}, .columns = b.domain.back(), .extreme = {}, .fill = {}} {}

  std::optional<RowBody> make() {
    if (p_.code.size() + p_.stores.size() + std::size(neutral) > RowSteps::max_steps) return std::nullopt;
    for (float f : neutral) push({.kind = RowSteps::number, .number = f});
    size_t maps = 0;
    for (uint32_t k = 0; k < p_.code.size(); ++k) {
      const std::optional<Step> step = step_of(k);
      if (!step) return std::nullopt;
      maps += step->kind >= RowSteps::add;
      push(*step);
    }
    for (const ProgramStore& s : p_.stores) {
      const bool contiguous = b_.strides[s.operand].back() == 1 && b_.dims[s.operand].back() == out_.columns;
      if (!contiguous || p_.memory[s.operand] != ir::DType::f32 || p_.code[s.reg].cls != Class::f32 || !out_.walk.add_store(b_, s)) return std::nullopt;
      push({.kind = RowSteps::store, .count = 1, .in = {id(s.reg)}, .operand = last_operand()});
    }
    if (maps == 0) return std::nullopt;
    find_extreme();
    return out_.columns <= fused_tuning::longest_row_body || !out_.extreme.empty() ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  // A chain of maxima or minima of loads, each the innermost operand of the next, and a store.
  void find_extreme() {
    const RowSteps& all = out_.steps;
    std::vector<uint8_t> loads;
    std::optional<float> fill;     // of all guarded loads
    size_t chain = all.count;  // the last link
    for (size_t k = std::size(neutral); k < all.count; ++k) {
      const Step& s = all.steps[k];
      if (s.kind == RowSteps::nothing || s.kind == RowSteps::number) continue;
      if (s.kind == RowSteps::load && !s.one) continue;
      if (s.kind == RowSteps::store) {
        if (k + 1 != all.count || s.in[0] != chain) return;
        loads.push_back(s.operand);
        if (fill && *fill != (out_.greatest ? -infinity : infinity)) {
          if (out_.columns > fused_tuning::longest_row_body) return;
          out_.fill = fill;
        }
        out_.extreme = std::move(loads);
        return;
      }
      const bool up = s.kind == RowSteps::greatest || s.kind == RowSteps::max, down = s.kind == RowSteps::least || s.kind == RowSteps::min;
      if (!up && !down) return;
      std::array<uint8_t, 5> in{s.in[0], s.in[1], s.in[2], s.in[3], s.in[4]};
      if (s.kind == RowSteps::max || s.kind == RowSteps::min) std::swap(in[0], in[1]);  // of equal operands the second one is the result
      if (chain != all.count && (in[0] != chain || up != out_.greatest)) return;
      for (size_t i = chain == all.count ? 0 : 1; i < static_cast<size_t>(s.count); ++i) {
        const Step& load = all.steps[in[i]];
        if (load.kind != RowSteps::load) return;
        if (is_guarded(load.operand)) {
          if (load.number != fill.value_or(load.number)) return;  // a NaN too
          fill = load.number;
        }
        loads.push_back(load.operand);
      }
      out_.greatest = up;
      chain = k;
    }
  }

  bool is_guarded(uint8_t operand) const {
    return std::any_of(out_.walk.guards.begin(), out_.walk.guards.end(),
                       [&](const auto& axis) { return std::any_of(axis.begin(), axis.end(), [&](const RowWalk::Guard& g) { return g.operand == operand; }); });
  }

  static constexpr float infinity = std::numeric_limits<float>::infinity();
  static constexpr float neutral[] = {0, -0.0f, 1};
  enum : uint8_t { zero, minus_zero, one };
  static uint8_t id(uint32_t instruction) { return static_cast<uint8_t>(instruction + std::size(neutral)); }

  void push(const Step& s) { out_.steps.steps[out_.steps.count++] = s; }
  uint8_t last_operand() const { return static_cast<uint8_t>(out_.walk.operands.size() - 1); }

  std::optional<Step> step_of(uint32_t k) {
    const ProgramInstruction& i = p_.code[k];
    if (b_.together[k].kind == Together::absorbed) return Step{};
    // Indices are followed by the row walk; nothing else reads them.
    if (i.kind == Kind::place || (i.kind == Kind::load && i.cls == Class::i64)) return b_.uniform[k] != 0 ? std::optional(Step{}) : std::nullopt;
    if (i.kind == Kind::literal)
      return i.cls == Class::f32 || i.cls == Class::i64 ? std::optional(Step{.kind = RowSteps::number, .number = static_cast<float>(i.f)}) : std::nullopt;
    if (i.cls != Class::f32) return std::nullopt;
    if (i.kind == Kind::load) return load(k);
    return i.kind == Kind::map && i.dtype == ir::DType::f32 ? map(k) : std::nullopt;
  }

  std::optional<Step> load(uint32_t k) {
    const ProgramInstruction& i = p_.code[k];
    const int64_t step = b_.strides[i.operand][b_.domain.size() - 1];
    const bool repeats = step == 0 || out_.columns == 1;
    if ((!repeats && step != 1) || p_.memory[i.operand] != ir::DType::f32 || !out_.walk.add_load(b_, k)) return std::nullopt;
    return Step{.kind = RowSteps::load, .operand = last_operand(), .one = repeats, .number = static_cast<float>(i.f)};
  }

  std::optional<Step> map(uint32_t k) {
    const ProgramInstruction& i = p_.code[k];
    const Together& together = b_.together[k];
    Step out;
    if (together.kind == Together::alone) {
      const auto kind = kind_of(i.op);
      if (!kind) return std::nullopt;
      out.kind = *kind;
      for (uint32_t in : i.in) {
        if (p_.code[in].cls != Class::f32) return std::nullopt;
        out.in[out.count++] = id(in);
      }
      return out;
    }
    // x - 0 and x + -0 return x unchanged, even a signed zero.
    const bool normalises = together.kind == Together::normalise;
    const uint8_t missing[] = {zero, normalises ? zero : minus_zero, one, normalises ? one : minus_zero, minus_zero};
    for (size_t n = 0; n < 5; ++n) {
      const bool given = together.in[n] != Together::none;
      out.in[n] = given ? id(together.in[n]) : missing[n];
      out.count = static_cast<uint8_t>(out.count + given);
    }
    switch (together.kind) {
      case Together::multiply_add: out.kind = RowSteps::multiply_add; return out;
      case Together::normalise: out.kind = RowSteps::normalise; return out;
      case Together::extreme: out.kind = together.op == Op::max ? RowSteps::greatest : RowSteps::least; return out;
      case Together::activate: out.kind = RowSteps::relu_add; return together.op == Op::relu ? std::optional(out) : std::nullopt;
      case Together::one_pass: out.kind = together.pass == Pass::cube ? RowSteps::cube : RowSteps::between; return out;
      default: return std::nullopt;
    }
  }

  const Bound& b_;
  const Program& p_;
  RowBody out_;
};

}  // namespace

bool may_be_row_body(const Bound& b, const Program& p) {
  if (p.has_reductions || p.has_accumulator || p.row_rank != 1 || b.domain.back() > fused_tuning::longest_row_body) return false;
  const auto last = static_cast<size_t>(p.domain_rank) - 1;
  auto fits = [&](size_t operand) { return p.memory[operand] == ir::DType::f32 && (b.strides[operand][last] == 0 || b.strides[operand][last] == 1); };
  bool maps = false;
  for (size_t k = 0; k < p.code.size(); ++k) {
    const ProgramInstruction& i = p.code[k];
    if (i.cls != Class::f32) return false;
    if (i.kind == Kind::map ? !kind_of(i.op) : i.kind != Kind::literal && i.kind != Kind::load) return false;
    if (i.kind == Kind::load && (!i.in.empty() || !fits(i.operand) || limits(b, k, i, p.domain_rank - 1))) return false;
    maps = maps || i.kind == Kind::map;
  }
  return maps && std::all_of(p.stores.begin(), p.stores.end(), [&](const ProgramStore& s) { return fits(s.operand); });
}

std::optional<RowBody> row_body(const Bound& b) {
  const Program& p = *b.program;
  if (!b.is_elementwise(p) || b.copies) return std::nullopt;
  return Maker(b).make();
}

// An excluded load changes nothing, or counts as one of a row of `fill`.
void RowBody::run_extreme(RowWalk::At& at, int64_t rows) const {
  const BlockOps& ops = block_ops();
  const float* from[RowSteps::max_operands];
  float filled[fused_tuning::longest_row_body];
  if (fill) std::fill_n(filled, columns, *fill);
  for (int64_t r = 0; r < rows; ++r, at.next()) {
    int count = 0;
    for (size_t k = 0; k + 1 < extreme.size(); ++k) {
      from[count] = reinterpret_cast<const float*>(at.pointer(extreme[k]));
      if (from[count] == nullptr && fill) from[count] = filled;
      count += from[count] != nullptr;
    }
    auto* to = reinterpret_cast<float*>(at.pointer(extreme.back()));
    if (count == 0) {
      std::fill_n(to, columns, greatest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity());
    } else {
      ops.extreme_rows(greatest, to, from, count, columns);
    }
  }
}

void RowBody::run(std::span<const TensorRef> operands, std::byte* const* held, int64_t begin, int64_t end) const {
  const BlockOps& ops = block_ops();
  RowWalk::At at(walk, operands, held, begin);
  if (!extreme.empty()) return run_extreme(at, end - begin);
  RowPointers pointers[RowSteps::rows_at_once];
  for (int64_t row = begin; row < end;) {
    const int count = static_cast<int>(std::min<int64_t>(RowSteps::rows_at_once, end - row));
    for (int r = 0; r < count; ++r, ++row, at.next()) {
      for (size_t k = 0; k < walk.operands.size(); ++k) pointers[r].of[k] = at.pointer(k);
    }
    ops.run_rows(steps, pointers, count, columns);
  }
}

}  // namespace ingot::kernels
