#include "base/sizes.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {

void verify(const SizeProgram& program, size_t symbols) {
  for (size_t i = 0; i < program.code.size(); ++i) {
    const SizeInstruction& instruction = program.code[i];
    switch (instruction.op) {
      case SizeInstruction::Op::constant: break;
      case SizeInstruction::Op::symbol:
        if (instruction.a >= symbols) fail(Code::format, "size {} reads symbol {}, but there are {}", i, instruction.a, symbols);
        break;
      case SizeInstruction::Op::add:
      case SizeInstruction::Op::sub:
      case SizeInstruction::Op::mul:
      case SizeInstruction::Op::floordiv:
      case SizeInstruction::Op::mod:
      case SizeInstruction::Op::min:
      case SizeInstruction::Op::max:
        if (instruction.a >= i || instruction.b >= i) fail(Code::format, "size {} reads a size that comes later", i);
        break;
      default: fail(Code::format, "size {} has the unknown operation {}", i, static_cast<int>(instruction.op));
    }
  }
}

void evaluate(const SizeProgram& program, std::span<const int64_t> symbols, std::span<int64_t> out) {
  using Op = SizeInstruction::Op;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const SizeInstruction& instruction = program.code[i];
    int64_t result = 0;
    bool overflow = false;
    if (instruction.op == Op::constant) {
      result = instruction.value;
    } else if (instruction.op == Op::symbol) {
      result = symbols[instruction.a];
    } else {
      int64_t a = out[instruction.a], b = out[instruction.b];
      switch (instruction.op) {
        case Op::add: overflow = __builtin_add_overflow(a, b, &result); break;
        case Op::sub: overflow = __builtin_sub_overflow(a, b, &result); break;
        case Op::mul: overflow = __builtin_mul_overflow(a, b, &result); break;
        case Op::min: result = std::min(a, b); break;
        case Op::max: result = std::max(a, b); break;
        default: {  // floordiv, mod
          if (b == 0) fail(Code::invalid_input, "a size is divided by zero for these inputs");
          if (a == INT64_MIN && b == -1) fail(Code::invalid_input, "a size is too large for these inputs");
          int64_t quotient = a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
          result = instruction.op == Op::floordiv ? quotient : a - quotient * b;
        }
      }
    }
    if (overflow) fail(Code::invalid_input, "a size is too large for these inputs: it does not fit 64 bits");
    out[i] = result;
  }
}

}  // namespace ingot
