#include "compile/size_table.h"

namespace ingot::compile {

uint32_t SizeTable::add(SizeInstruction::Op op, uint32_t a, uint32_t b, int64_t value) {
  auto [found, made] = known_.try_emplace({op, a, b, value}, static_cast<uint32_t>(program_.code.size()));
  if (made) program_.code.push_back({op, a, b, value});
  return found->second;
}

SizeTable::SizeTable(SizeProgram program) : program_(std::move(program)) {
  for (uint32_t i = 0; i < program_.code.size(); ++i) {
    const SizeInstruction& c = program_.code[i];
    known_.try_emplace({c.op, c.a, c.b, c.value}, i);
  }
}

plan::SizeRef SizeTable::ref(const ir::Dim& dim) {
  using Kind = ir::Dim::Kind;
  using Op = SizeInstruction::Op;
  ir::Dim::Expression e = dim.expression();
  if (e.kind == Kind::constant) return add(Op::constant, 0, 0, e.value);
  if (e.kind == Kind::symbol) return add(Op::symbol, static_cast<uint32_t>(e.value), 0, 0);
  Op op = e.kind == Kind::add        ? Op::add
          : e.kind == Kind::mul      ? Op::mul
          : e.kind == Kind::floordiv ? Op::floordiv
          : e.kind == Kind::mod      ? Op::mod
          : e.kind == Kind::min      ? Op::min
                                     : Op::max;
  uint32_t result = ref(e.parts[0]);
  for (size_t i = 1; i < e.parts.size(); ++i) result = add(op, result, ref(e.parts[i]), 0);
  return result;
}

std::vector<plan::SizeRef> SizeTable::refs(std::span<const ir::Dim> dims) {
  std::vector<plan::SizeRef> out;
  for (const ir::Dim& d : dims) out.push_back(ref(d));
  return out;
}

}  // namespace ingot::compile
