// A size that may be symbolic: a constant, or a polynomial over symbols and opaque functions of
// other sizes. Kept in a normal form, so that equal expressions compare equal. All arithmetic is
// checked int64; overflow is an Error.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::ir {

using SymbolId = uint32_t;

struct Range {
  int64_t min = 0, max = INT64_MAX;
};

// One dynamic size of a model. The name is the user's ("B") or made up ("s0").
struct Symbol {
  std::string name;
  int64_t min = 0, opt = 1, max = INT64_MAX;
};

class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : constant_(value) {}  // NOLINT: a size is written as a number everywhere
  static Dim symbol(SymbolId id);

  bool is_constant() const { return !node_; }
  // The value if this is a constant.
  std::optional<int64_t> constant() const;
  // The value; an Error if it is symbolic. Only where a symbolic size was excluded before.
  int64_t value() const;
  // The symbol if this is exactly one symbol.
  std::optional<SymbolId> as_symbol() const;

  friend Dim operator+(const Dim&, const Dim&);
  friend Dim operator-(const Dim&, const Dim&);
  friend Dim operator*(const Dim&, const Dim&);
  friend Dim floordiv(const Dim&, const Dim&);  // rounds towards minus infinity; /0 is an Error
  friend Dim mod(const Dim&, const Dim&);       // sign of the divisor, as in Python
  friend Dim min(const Dim&, const Dim&);
  friend Dim max(const Dim&, const Dim&);
  Dim operator-() const { return Dim(0) - *this; }
  Dim& operator+=(const Dim& o) { return *this = *this + o; }
  Dim& operator*=(const Dim& o) { return *this = *this * o; }
  // Equality of normal forms: true means equal for all sizes; false means "not known to be equal".
  friend bool operator==(const Dim&, const Dim&);

  // Value under an assignment of the symbols.
  int64_t evaluate(std::span<const int64_t> symbols) const;
  // Each symbol replaced by a Dim (missing ids stay).
  Dim substitute(const std::function<std::optional<Dim>(SymbolId)>& of) const;
  // Bounds implied by the ranges of the symbols (interval arithmetic; conservative).
  Range range(std::span<const Symbol> symbols) const;
  void collect_symbols(std::vector<SymbolId>& out) const;
  size_t hash() const;

  // The expression tree in SSA-friendly form, for compiling to a size program: calls `visit` on
  // the parts. kind: constant, symbol, add, mul, floordiv, mod, min, max.
  enum class Kind : uint8_t { constant, symbol, add, mul, floordiv, mod, min, max };
  struct Expression {
    Kind kind;
    int64_t value = 0;       // constant, or symbol id
    std::vector<Dim> parts;  // operands; add and mul have two or more
  };
  Expression expression() const;

  // Text such as "B*S + 1", "floordiv(S, 2)"; symbols by name. `parse_dim` reads it back.
  std::string text(std::span<const Symbol> symbols) const;

  struct Node;  // defined in dim.cpp

 private:
  int64_t constant_ = 0;              // when node_ is null
  std::shared_ptr<const Node> node_;  // normal form of a symbolic expression, immutable
  friend struct DimAccess;
};

using Dims = std::vector<Dim>;

bool operator==(const Dim&, const Dim&);
Dim operator+(const Dim&, const Dim&);
Dim operator-(const Dim&, const Dim&);
Dim operator*(const Dim&, const Dim&);
Dim floordiv(const Dim&, const Dim&);
Dim mod(const Dim&, const Dim&);
Dim min(const Dim&, const Dim&);
Dim max(const Dim&, const Dim&);
Dim ceildiv(const Dim&, const Dim&);
Dim product(const Dims&);
// floor(size * factor) as float64 computes it, for results below 2^40. None if its rounding follows no fraction: 0.7 * 10 is 7, 0.7 * 90 is 62.99999999999999.
std::optional<Dim> scaled(const Dim& size, double factor);

// Reads the text form. `resolve` maps a name to a symbol (and may create it).
Dim parse_dim(std::string_view text, const std::function<SymbolId(std::string_view)>& resolve);

enum class Truth : uint8_t { no, yes, unknown };
// Decided by normal form, then by ranges.
Truth known_equal(const Dim&, const Dim&, std::span<const Symbol>);
Truth known_less(const Dim&, const Dim&, std::span<const Symbol>);  // a < b

}  // namespace ingot::ir
