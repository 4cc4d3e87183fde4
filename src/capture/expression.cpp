#include "capture/expression.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "ir/scaled_sizes.h"

namespace ingot::capture {

namespace {

using ir::Dim;

// A quotient of sizes: math.ceil(a / b), and sympy writes s//2 as Mul(Rational(1, 2), s) where it knows that s is even.
struct Fraction {
  Dim top = 0;
  Dim bottom = 1;
  std::optional<Dim> root = {};  // of a square, what is squared
  double factor = 1;             // a float64 that is not a fraction, by which the quotient is multiplied
  bool rounded = false;          // torch rounds the quotient to float64
};

constexpr int64_t max_tried_sizes = 1 << 16;  // of a range: some milliseconds
constexpr int64_t max_number = 1 << 30;       // of which products are numbers

bool is_power_of_two(const Dim& d) { return d.is_constant() && std::has_single_bit(static_cast<uint64_t>(std::abs(d.value()))); }

Dim common_multiple(const Dim& a, const Dim& b) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  return (a.is_constant() && b.is_constant() ? Dim(a.value() / std::gcd(a.value(), b.value())) : a) * b;
}

class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, const std::function<Dim(std::string_view)>& resolve, const std::vector<ir::Symbol>& symbols)
      : text_(text), resolve_(resolve), symbols_(symbols) {}

  // `holds`: whether the conditions are wanted, or their opposite.
  std::optional<std::vector<Condition>> conditions(bool holds = true, int depth = 0) {
    if (depth > 64) broken();
    std::string_view relation = word();
    if (relation == "Not") {
      expect('(');
      auto inner = conditions(!holds, depth + 1);
      if (inner) expect(')');
      return inner;
    }
    if (relation == "And" || relation == "Or") {
      std::vector<std::vector<Condition>> parts;
      expect('(');
      do {
        auto part = conditions(holds, depth + 1);
        if (!part) return std::nullopt;
        parts.push_back(std::move(*part));
      } while (take(','));
      expect(')');
      if ((relation == "Or") == holds) return std::vector<Condition>{{.either = std::move(parts)}};
      std::vector<Condition> all;
      for (auto& part : parts) all.insert(all.end(), part.begin(), part.end());
      return all;
    }
    bool equal = relation == "Equality" || relation == "Eq", le = relation == "LessThan" || relation == "Le", lt = relation == "StrictLessThan" || relation == "Lt";
    bool ge = relation == "GreaterThan" || relation == "Ge", gt = relation == "StrictGreaterThan" || relation == "Gt";
    bool unequal = relation == "Unequality" || relation == "Ne";
    const bool below = le || lt, above = ge || gt;
    if (!equal && !unequal && !below && !above) return std::nullopt;
    expect('(');
    const Fraction left = exact(expression(0));
    expect(',');
    const Fraction right = exact(expression(0));
    expect(')');
    Dim a = left.top * right.bottom, b = right.top * left.bottom;
    if (!holds) {
      std::swap(equal, unequal);
      std::tie(le, gt, lt, ge) = std::tuple(gt, le, ge, lt);
    }
    if (ge || gt) std::swap(a, b);
    if (lt || gt) a += 1;
    return std::vector<Condition>{{std::move(a), std::move(b), equal, unequal}};
  }

  Dim run() {
    Dim d = whole(expression(0));
    skip();
    if (at_ != text_.size()) broken();
    return d;
  }

 private:
  [[noreturn]] void broken() const { fail(Code::format, "the model's JSON is damaged: the size \"{}\" cannot be read", text_.substr(0, 200)); }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) broken();
  }
  std::string_view word() {
    skip();
    size_t begin = at_;
    while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  int64_t integer() {
    skip();
    int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc()) broken();
    at_ = static_cast<size_t>(end - text_.data());
    return v;
  }

  Dim symbol() {
    char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) broken();
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    while (take(',')) {  // assumptions: positive=True, integer=True
      word();
      expect('=');
      word();
    }
    expect(')');
    return resolve_(name);
  }

  // Float('1.5', precision=53) as the fraction it is. torch rounds products with one whose denominator is long.
  Fraction number() {
    if (!take('\'')) broken();
    size_t end = text_.find('\'', at_);
    double v = 0;
    if (end == std::string_view::npos || std::from_chars(text_.data() + at_, text_.data() + end, v).ptr != text_.data() + end) broken();
    at_ = end + 1;
    expect(',');
    word();
    expect('=');
    integer();
    expect(')');
    int64_t bottom = 1;
    while (bottom < 4096 && v * static_cast<double>(bottom) != std::trunc(v * static_cast<double>(bottom))) bottom *= 2;
    double top = v * static_cast<double>(bottom);
    if (!(std::fabs(top) < 1e9)) unsupported("Float");
    if (top != std::trunc(top)) return {.top = 1, .factor = v};
    return {static_cast<int64_t>(top), bottom};
  }

  Dim whole(const Fraction& f) const {
    if (f.factor == 1) return floordiv(f.top, f.bottom);
    const std::optional<Dim> product = f.bottom == Dim(1) ? scaled(f.top, f.factor, f.top.range(symbols_)) : std::nullopt;
    if (!product) unsupported("Float");
    return *product;
  }

  // The parts of what is computed exactly.
  const Fraction& exact(const Fraction& f) const {
    if (f.factor != 1) unsupported("Float");
    return f;
  }

  Fraction expression(int depth) {
    if (depth > 64) broken();
    std::string_view function = word();
    expect('(');
    if (function == "Symbol") return {symbol()};
    if (function == "Integer") {
      int64_t v = integer();
      expect(')');
      return {v};
    }
    if (function == "Rational") {
      int64_t top = integer();
      expect(',');
      int64_t bottom = integer();
      expect(')');
      if (bottom <= 0) broken();
      return {top, bottom};
    }
    if (function == "Float") return number();
    std::vector<Fraction> parts;
    const size_t begin = at_;
    while (!take(')')) {
      if (!parts.empty()) {
        expect(',');
        skip();
        // evaluate=False and the like at the end of a call
        size_t before = at_;
        std::string_view name = word();
        if (take('=')) {
          word();
          continue;
        }
        (void)name;
        at_ = before;
      }
      parts.push_back(expression(depth + 1));
    }
    return apply(function, parts, text_.substr(begin, at_ - begin));
  }

  // True if `a` is at most `b` for all values of the symbols.
  bool is_less(const Dim& a, const Dim& b) const { return (b - a).range(symbols_).min >= 0; }

  // True if whole parts of this product are those of its float64: 1 / 49 * 49 is less than 1. Factors of 2 are exact, and the sizes of a short range are tried.
  bool is_exact(const std::vector<Fraction>& parts) const {
    const auto is_exact_factor = [](const Fraction& p) { return is_power_of_two(p.top) && is_power_of_two(p.bottom); };
    if (std::count_if(parts.begin(), parts.end(), is_exact_factor) + 1 >= std::ssize(parts)) return true;
    if (parts.size() != 2 || parts[0].rounded == parts[1].rounded) return false;
    const auto& [quotient, factor] = parts[0].rounded ? std::tie(parts[0], parts[1]) : std::tie(parts[1], parts[0]);
    std::vector<ir::SymbolId> in;
    quotient.top.collect_symbols(in);
    if (in.size() != 1 || in[0] >= symbols_.size() || !quotient.bottom.is_constant() || !factor.top.is_constant() || !factor.bottom.is_constant()) return false;
    const ir::Symbol& symbol = symbols_[in[0]];
    if (symbol.max - symbol.min > max_tried_sizes) return false;
    std::vector<int64_t> sizes(symbols_.size(), 1);
    for (int64_t& size = sizes[in[0]] = symbol.min; size <= symbol.max; ++size) {
      const int64_t top = quotient.top.evaluate(sizes), bottom = quotient.bottom.value();
      const double rounded = static_cast<double>(top) / static_cast<double>(bottom) * (static_cast<double>(factor.top.value()) / static_cast<double>(factor.bottom.value()));
      if (std::max({std::abs(top), bottom, std::abs(factor.top.value()), factor.bottom.value()}) > max_number) return false;
      const int64_t exact_top = top * factor.top.value(), exact_bottom = bottom * factor.bottom.value();
      if (std::floor(rounded) != std::floor(static_cast<double>(exact_top) / static_cast<double>(exact_bottom)) ||
          (rounded == std::floor(rounded)) != (exact_top % exact_bottom == 0))
        return false;
    }
    return true;
  }

  // `said`: the parts' text.
  Fraction apply(std::string_view function, const std::vector<Fraction>& parts, std::string_view said) {
    if (parts.empty()) broken();
    auto dim = [&](size_t i) { return i < parts.size() ? whole(parts[i]) : (broken(), Dim(0)); };
    if (function == "Add") {
      Fraction sum = exact(parts[0]);
      for (size_t i = 1; i < parts.size(); ++i) {
        const Dim common = common_multiple(sum.bottom, exact(parts[i]).bottom);
        sum = {.top = sum.top * floordiv(common, sum.bottom) + parts[i].top * floordiv(common, parts[i].bottom), .bottom = common, .rounded = sum.rounded || parts[i].rounded};
      }
      return sum;
    }
    if (function == "Mul") {
      Fraction product{1};
      for (const Fraction& p : parts) {
        if (p.factor != 1) exact(product);
        product = {.top = product.top * p.top, .bottom = product.bottom * p.bottom, .factor = product.factor * p.factor, .rounded = product.rounded || p.rounded};
      }
      if (product.rounded && !is_exact(parts)) unsupported(function);
      return product;
    }
    // The float64 quotient of whole numbers below 2^53 is rounded up, down or cut as the exact one.
    if (function == "IntTrueDiv" || function == "FloatTrueDiv") {
      const Fraction by = parts.size() == 2 ? exact(parts[1]) : (broken(), Fraction{});
      if (by.top.constant().value_or(1) <= 0 || (function == "FloatTrueDiv" && !by.top.is_constant())) unsupported(function);
      const Dim bottom = parts[0].bottom * by.top;
      return {.top = exact(parts[0]).top * by.bottom, .bottom = bottom, .rounded = parts[0].rounded || !is_power_of_two(bottom)};
    }
    if (function == "Pow" || function == "PowByNatural") {
      auto power = dim(1).constant();
      if (!power || *power < 0 || *power > 8) unsupported(function);
      Dim out = 1;
      for (int64_t i = 0; i < *power; ++i) out *= dim(0);
      if (*power == 2 && said.find("(-") == said.npos) return {out, 1, dim(0)};  // without a negative number, sizes make no negative root
      return {out};
    }
    // n ** 0.5 of a square, in which models find the side of a square image. float64 has the root of a square below 2^53.
    if (function == "FloatPow") {
      if (parts.size() != 2 || !parts[0].root || !(parts[1].bottom == Dim(2)) || !(parts[1].top == Dim(1))) unsupported(function);
      return {*parts[0].root};
    }
    auto fold = [&](auto f) {
      Dim out = dim(0);
      for (size_t i = 1; i < parts.size(); ++i) out = f(out, dim(i));
      return Fraction{out};
    };
    if (function == "FloorDiv" || function == "CleanDiv" || function == "IntFloorDiv") return {floordiv(dim(0), dim(1))};
    if (function == "Mod" || function == "PythonMod") return {mod(dim(0), dim(1))};
    if (function == "ModularIndexing") return {mod(floordiv(dim(0), dim(1)), dim(2))};
    // Where the ranges say which is larger, as for Max(0, 1 - s), a size that follows is known.
    if (function == "Max") return fold([&](const Dim& a, const Dim& b) { return is_less(a, b) ? b : is_less(b, a) ? a : max(a, b); });
    if (function == "Min") return fold([&](const Dim& a, const Dim& b) { return is_less(a, b) ? a : is_less(b, a) ? b : min(a, b); });
    if (function == "CeilToInt" || function == "ceiling") return {-floordiv(-exact(parts[0]).top, parts[0].bottom)};
    if (function == "TruncToInt" || function == "FloorToInt" || function == "floor" || function == "Identity") return {dim(0)};
    if (function == "ToFloat") return parts[0];
    unsupported(function);
  }

  [[noreturn]] void unsupported(std::string_view function) const {
    fail(Code::unsupported, "a size is computed with {}, which has no meaning for sizes here: {}", function, text_.substr(0, 200));
  }

  std::string_view text_;
  const std::function<Dim(std::string_view)>& resolve_;
  const std::vector<ir::Symbol>& symbols_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<Condition>> parse_condition(std::string_view srepr, const std::function<Dim(std::string_view)>& resolve, const std::vector<ir::Symbol>& symbols) {
  return ExpressionParser(srepr, resolve, symbols).conditions();
}

Dim broken(const std::vector<Condition>& conditions) {
  Dim sum = 0;
  for (const Condition& c : conditions) {
    if (!c.either.empty()) {
      Dim all = 1;
      for (const std::vector<Condition>& part : c.either) all *= broken(part);
      sum += all;
      continue;
    }
    const Dim over = c.left - c.right;
    sum += c.unequal ? Dim(1) - min(over * over, 1) : c.equal ? over * over : max(over, 0);
  }
  return sum;
}

Dim parse_size(std::string_view srepr, const std::function<Dim(std::string_view)>& resolve, const std::vector<ir::Symbol>& symbols) {
  return ExpressionParser(srepr, resolve, symbols).run();
}

}  // namespace ingot::capture
