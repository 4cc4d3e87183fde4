// Size programs: the size expressions of a plan as a list of checked int64 operations over symbol values.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

struct SizeInstruction {
  enum class Op : uint8_t { constant, symbol, add, sub, mul, floordiv, mod, min, max };
  Op op;
  uint32_t a = 0, b = 0;  // earlier instructions; symbol: its index in `a`
  int64_t value = 0;      // constant
  bool operator==(const SizeInstruction&) const = default;
};

struct SizeProgram {
  std::vector<SizeInstruction> code;  // instruction i makes value i
};

// Error (format) when an instruction reads a later value or an unknown symbol.
void verify(const SizeProgram&, size_t symbols);
// `out` has one element per instruction. Error (invalid_input) on overflow or division by zero.
void evaluate(const SizeProgram&, std::span<const int64_t> symbols, std::span<int64_t> out);

}  // namespace ingot
