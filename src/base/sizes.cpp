#include "base/sizes.h"

#include <algorithm>

#include "base/error.h"

namespace ingot {

int64_t LinearSize::solved(int64_t size) const {
  int64_t rest;
  if (__builtin_sub_overflow(size, offset, &rest)) return offset < 0 ? INT64_MAX : INT64_MIN;
  return rest / factor - (rest % factor < 0);
}

int64_t LinearSize::size_at(int64_t value) const {
  int64_t product, size;
  return __builtin_mul_overflow(value, factor, &product) || __builtin_add_overflow(product, offset, &size) ? INT64_MAX : size;
}

std::vector<std::optional<LinearSize>> linear_sizes(const SizeProgram& program) {
  using Op = SizeInstruction::Op;
  std::vector<std::optional<LinearSize>> out(program.code.size());
  auto constant = [&](uint32_t i) -> std::optional<int64_t> {
    if (program.code[i].op != Op::constant) return std::nullopt;
    return program.code[i].value;
  };
  for (size_t i = 0; i < program.code.size(); ++i) {
    const SizeInstruction& c = program.code[i];
    if (c.op == Op::symbol) {
      out[i] = LinearSize{c.a};
      continue;
    }
    if (c.op != Op::add && c.op != Op::sub && c.op != Op::mul) continue;
    const bool swapped = !out[c.a] && c.op != Op::sub;  // the constant stands first
    std::optional<LinearSize> size = out[swapped ? c.b : c.a];
    const std::optional<int64_t> number = constant(swapped ? c.a : c.b);
    if (!size || !number) continue;
    const bool overflow = c.op == Op::mul   ? __builtin_mul_overflow(size->factor, *number, &size->factor) || __builtin_mul_overflow(size->offset, *number, &size->offset)
                          : c.op == Op::add ? __builtin_add_overflow(size->offset, *number, &size->offset)
                                            : __builtin_sub_overflow(size->offset, *number, &size->offset);
    if (!overflow && size->factor > 0) out[i] = size;
  }
  return out;
}

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
          const int64_t rest = a % b;
          const bool down = rest != 0 && (rest < 0) != (b < 0);
          result = instruction.op == Op::floordiv ? a / b - down : rest + (down ? b : 0);
        }
      }
    }
    if (overflow) fail(Code::invalid_input, "a size is too large for these inputs: it does not fit 64 bits");
    out[i] = result;
  }
}

}  // namespace ingot
