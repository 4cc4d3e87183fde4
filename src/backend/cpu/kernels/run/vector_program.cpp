#include "backend/cpu/kernels/run/vector_program.h"

#include <algorithm>

namespace ingot::kernels {

using ir::DType;
using ir::Op;

namespace {

bool runs_in_vectors(Op op) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::min:
    case Op::max:
    case Op::neg:
    case Op::abs:
    case Op::relu:
    case Op::exp:
    case Op::expm1:
    case Op::tanh:
    case Op::erf:
    case Op::sigmoid:
    case Op::silu:
    case Op::gelu:
    case Op::gelu_tanh:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::select: return true;
    default: return false;
  }
}

bool is_loaded(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }

// True if all operands are contiguous along columns, or are one element.
bool suits(const VectorProgram& v, const Bound& b) {
  return std::all_of(v.operands, v.operands + v.operand_count, [&](int k) {
    const int64_t step = b.strides[static_cast<size_t>(k)].back();
    const bool written = static_cast<size_t>(k) + b.program->stores.size() >= b.strides.size();
    return step == 1 || (step == 0 && !written) || b.domain.back() == 1;
  });
}

}  // namespace

std::optional<VectorProgram> vector_program(const Program& p, const Bound& b) {
  if (!p.has_accumulator || p.has_reductions || p.accumulator != Class::f32 || p.code.size() + p.stores.size() > VectorProgram::max_steps) return std::nullopt;
  VectorProgram out;
  auto operand = [&](int of_body) -> std::optional<uint8_t> {
    if (out.operand_count == VectorProgram::max_operands || !is_loaded(p.memory[static_cast<size_t>(of_body)])) return std::nullopt;
    out.operands[out.operand_count] = of_body;
    return static_cast<uint8_t>(out.operand_count++);
  };
  for (const ProgramInstruction& i : p.code) {
    VectorProgram::Step& s = out.steps[out.count++];
    s = {VectorProgram::sum, i.op, {}, 0, 0};
    for (size_t k = 0; k < i.in.size() && k < 3; ++k) s.in[k] = static_cast<uint8_t>(i.in[k]);
    switch (i.kind) {
      case Kind::accumulator: break;
      case Kind::literal:
        if (i.cls != Class::f32) return std::nullopt;
        s.kind = VectorProgram::number;
        s.number = static_cast<float>(i.f);
        break;
      case Kind::load: {
        if (i.cls != Class::f32 || !i.in.empty() || !i.lower.empty()) return std::nullopt;
        const auto found = operand(i.operand);
        if (!found) return std::nullopt;
        s.kind = VectorProgram::load;
        s.operand = *found;
        break;
      }
      case Kind::map: {
        const bool test = ir::result_of(i.op) == ir::ResultType::boolean;
        if (!runs_in_vectors(i.op) || (test ? i.cls != Class::b8 : i.dtype != DType::f32)) return std::nullopt;
        for (size_t k = 0; k < i.in.size(); ++k) {
          const bool condition = i.op == Op::select && k == 0;
          if (p.code[i.in[k]].cls != (condition ? Class::b8 : Class::f32)) return std::nullopt;
        }
        s.kind = VectorProgram::map;
        break;
      }
      default: return std::nullopt;
    }
  }
  out.result = static_cast<uint8_t>(p.stores[0].reg);
  if (p.code[out.result].cls != Class::f32 || !is_loaded(p.memory[p.stores[0].operand])) return std::nullopt;
  for (size_t k = 1; k < p.stores.size(); ++k) {
    const auto found = operand(p.stores[k].operand);
    if (!found || p.code[p.stores[k].reg].cls != Class::f32 || p.memory[p.stores[k].operand] != DType::f32) return std::nullopt;
    out.steps[out.count++] = {VectorProgram::store, Op::add, {static_cast<uint8_t>(p.stores[k].reg)}, *found, 0};
  }
  return suits(out, b) ? std::optional(out) : std::nullopt;
}

VectorEnd vector_end(const VectorProgram& v, const Bound& b, std::span<const TensorRef> operands, const int64_t* at, int64_t columns) {
  VectorEnd out;
  out.program = &v;
  out.columns = columns;
  for (size_t k = 0; k < v.operand_count; ++k) {
    const auto o = static_cast<size_t>(v.operands[k]);
    const std::vector<int64_t>& strides = b.strides[o];
    const TensorRef& t = operands[o];
    int64_t offset = 0;
    for (size_t d = 0; d + 1 < strides.size(); ++d) offset += at[d] * strides[d];
    out.operands[k] = {t.data + offset * static_cast<int64_t>(ir::size_of(t.dtype)), strides[strides.size() - 2], strides.back() == 0, t.dtype};
  }
  return out;
}

}  // namespace ingot::kernels
