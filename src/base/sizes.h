// Size programs: the size expressions of a plan as a list of checked int64 operations over symbol values.
#pragma once
#include <cstdint>
#include <optional>
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

// A size that is factor * symbol + offset, with a positive factor: where the size is known, so is the symbol.
struct LinearSize {
  uint32_t symbol = 0;
  int64_t factor = 1, offset = 0;
  bool plain() const { return factor == 1 && offset == 0; }
  // The symbol's value where the size is `size`, rounded down: sizes between two values do not occur.
  int64_t symbol_at(int64_t size) const { return plain() ? size : solved(size); }
  // The size where the symbol has this value; INT64_MAX where it would be more.
  int64_t size_at(int64_t value) const;
  bool operator==(const LinearSize&) const = default;

 private:
  int64_t solved(int64_t size) const;
};
// For each instruction whether it is such a size.
std::vector<std::optional<LinearSize>> linear_sizes(const SizeProgram&);

// Error (format) when an instruction reads a later value or an unknown symbol.
void verify(const SizeProgram&, size_t symbols);
// `out` has one element per instruction. Error (invalid_input) on overflow or division by zero.
void evaluate(const SizeProgram&, std::span<const int64_t> symbols, std::span<int64_t> out);

}  // namespace ingot
