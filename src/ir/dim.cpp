#include "ir/dim.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace ingot::ir {

namespace {

int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail(Code::invalid_input, "a size does not fit 64 bits: {} + {}", a, b);
  return r;
}
int64_t mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail(Code::invalid_input, "a size does not fit 64 bits: {} * {}", a, b);
  return r;
}
int64_t divide(int64_t a, int64_t b) {
  if (b == 0) fail(Code::invalid_input, "a size is divided by zero");
  if (a == INT64_MIN && b == -1) fail(Code::invalid_input, "a size does not fit 64 bits: {} / {}", a, b);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t remainder(int64_t a, int64_t b) { return b == -1 ? 0 : a - divide(a, b) * b; }

}  // namespace

// A symbol, or an opaque function of two sizes.
struct Atom {
  Dim::Kind kind;  // symbol, floordiv, mod, min, max
  SymbolId symbol = 0;
  Dim a, b;
};

// coefficient * product of the atoms (sorted, repeated for powers).
struct Term {
  int64_t coefficient;
  std::vector<Atom> atoms;
};

// Sum of terms, sorted by their atoms; no zero coefficients, and never just a constant (that is Dim::constant_).
struct Dim::Node {
  std::vector<Term> terms;
};

struct DimAccess {
  static const Dim::Node* node(const Dim& d) { return d.node_.get(); }
  static int64_t constant(const Dim& d) { return d.constant_; }
  static Dim make(std::vector<Term> terms) {
    if (terms.empty()) return Dim(0);
    if (terms.size() == 1 && terms[0].atoms.empty()) return Dim(terms[0].coefficient);
    Dim d;
    auto node = std::make_shared<Dim::Node>();
    node->terms = std::move(terms);
    d.node_ = std::move(node);
    return d;
  }
};

namespace {

int compare(const Dim& a, const Dim& b);

int compare(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == Dim::Kind::symbol) return a.symbol < b.symbol ? -1 : a.symbol > b.symbol;
  if (int c = compare(a.a, b.a)) return c;
  return compare(a.b, b.b);
}

int compare(const std::vector<Atom>& a, const std::vector<Atom>& b) {
  // Higher degrees first, so that text reads "B*S + S + 1".
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (int c = compare(a[i], b[i])) return c;
  }
  return 0;
}

std::vector<Term> terms_of(const Dim& d) {
  if (const Dim::Node* node = DimAccess::node(d)) return node->terms;
  if (DimAccess::constant(d) == 0) return {};
  return {Term{DimAccess::constant(d), {}}};
}

int compare(const Dim& a, const Dim& b) {
  const Dim::Node *x = DimAccess::node(a), *y = DimAccess::node(b);
  if (x == y && x != nullptr) return 0;
  if (x == nullptr && y == nullptr) {
    int64_t i = DimAccess::constant(a), j = DimAccess::constant(b);
    return i < j ? -1 : i > j;
  }
  std::vector<Term> s = terms_of(a), t = terms_of(b);
  if (s.size() != t.size()) return s.size() < t.size() ? -1 : 1;
  for (size_t i = 0; i < s.size(); ++i) {
    if (int c = compare(s[i].atoms, t[i].atoms)) return c;
    if (s[i].coefficient != t[i].coefficient) return s[i].coefficient < t[i].coefficient ? -1 : 1;
  }
  return 0;
}

std::vector<Term> collect(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare(a.atoms, b.atoms) < 0; });
  std::vector<Term> out;
  for (Term& t : terms) {
    if (!out.empty() && compare(out.back().atoms, t.atoms) == 0) {
      out.back().coefficient = add(out.back().coefficient, t.coefficient);
    } else {
      out.push_back(std::move(t));
    }
  }
  std::erase_if(out, [](const Term& t) { return t.coefficient == 0; });
  return out;
}

Dim from_atom(Atom atom) { return DimAccess::make({Term{1, {std::move(atom)}}}); }

// t / divisor for single terms, when coefficient and atoms divide.
std::optional<Term> exact_quotient(Term t, const Term& divisor) {
  if (remainder(t.coefficient, divisor.coefficient) != 0) return std::nullopt;
  t.coefficient = divide(t.coefficient, divisor.coefficient);
  for (const Atom& atom : divisor.atoms) {
    auto found = std::find_if(t.atoms.begin(), t.atoms.end(), [&](const Atom& x) { return compare(x, atom) == 0; });
    if (found == t.atoms.end()) return std::nullopt;
    t.atoms.erase(found);
  }
  return t;
}

// a / b when b divides a: long division of polynomials by the leading term, so that (B*S + B) / (S + 1) is B.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b) {
  std::vector<Term> divisor = terms_of(b);
  if (divisor.empty()) return std::nullopt;
  if (compare(a, b) == 0) return Dim(1);
  Dim rest = a, quotient = 0;
  for (int step = 0; step < 64; ++step) {
    std::vector<Term> terms = terms_of(rest);
    if (terms.empty()) return quotient;
    if (terms.size() + 1 < divisor.size()) return std::nullopt;
    std::optional<Term> t = exact_quotient(terms[0], divisor[0]);
    if (!t) return std::nullopt;
    Dim part = DimAccess::make({*t});
    quotient += part;
    rest = rest - part * b;
  }
  return std::nullopt;
}

// The largest number dividing every coefficient of both.
int64_t common_factor(const Dim& a, const Dim& b) {
  int64_t g = 0;
  for (const Dim* d : {&a, &b}) {
    for (const Term& t : terms_of(*d)) {
      if (t.coefficient == INT64_MIN) return 1;
      g = std::gcd(g, t.coefficient);
    }
  }
  return g == 0 ? 1 : g;
}

Dim divided(const Dim& d, int64_t by) {
  std::vector<Term> terms = terms_of(d);
  for (Term& t : terms) t.coefficient /= by;
  return DimAccess::make(std::move(terms));
}

// Splits a into (multiple of b) / b and the rest.
std::pair<Dim, Dim> split_multiple(const Dim& a, const Dim& b) {
  if (auto q = exact_quotient(a, b)) return {*q, 0};
  Dim whole = 0, rest = 0;
  for (Term& t : terms_of(a)) {
    Dim term = DimAccess::make({t});
    if (auto q = exact_quotient(term, b)) {
      whole += *q;
    } else {
      rest += term;
    }
  }
  return {whole, rest};
}

}  // namespace

Dim Dim::symbol(SymbolId id) { return from_atom(Atom{Kind::symbol, id, {}, {}}); }

std::optional<int64_t> Dim::constant() const {
  if (node_) return std::nullopt;
  return constant_;
}

int64_t Dim::value() const {
  if (node_) fail(Code::internal, "a size is symbolic where a number is needed");
  return constant_;
}

std::optional<SymbolId> Dim::as_symbol() const {
  if (!node_ || node_->terms.size() != 1) return std::nullopt;
  const Term& t = node_->terms[0];
  if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0].kind != Kind::symbol) return std::nullopt;
  return t.atoms[0].symbol;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant_, b.constant_);
  std::vector<Term> terms = terms_of(a);
  for (Term& t : terms_of(b)) terms.push_back(std::move(t));
  // q * b + a mod b is a, where q is floordiv(a, b).
  std::vector<Term> sum = collect(std::move(terms));
  for (size_t i = 0; i < sum.size(); ++i) {
    if (sum[i].atoms.size() != 1 || sum[i].atoms[0].kind != Dim::Kind::mod) continue;
    const Atom m = sum[i].atoms[0];
    Dim product = DimAccess::make({Term{sum[i].coefficient, {Atom{Dim::Kind::floordiv, 0, m.a, m.b}}}}) * m.b;
    std::vector<Term> wanted = terms_of(product);
    if (wanted.size() != 1) continue;
    auto found = std::find_if(sum.begin(), sum.end(), [&](const Term& t) { return t.coefficient == wanted[0].coefficient && compare(t.atoms, wanted[0].atoms) == 0; });
    if (found == sum.end()) continue;
    Dim whole = Dim(sum[i].coefficient) * m.a;
    std::vector<Term> rest;
    for (const Term& t : sum) {
      if (&t != &sum[i] && &t != &*found) rest.push_back(t);
    }
    return DimAccess::make(std::move(rest)) + whole;
  }
  return DimAccess::make(std::move(sum));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return mul(a.constant_, b.constant_);
  std::vector<Term> out;
  std::vector<Term> left = terms_of(a), right = terms_of(b);
  // Sizes of models are short. Text from a file must not make us multiply out (a+b)^64.
  if (left.size() * right.size() > 4096) fail(Code::invalid_input, "a size expression has more than 4096 terms");
  for (const Term& s : left) {
    for (const Term& t : right) {
      if (s.atoms.size() + t.atoms.size() > 256) fail(Code::invalid_input, "a size is a product of more than 256 sizes");
      Term product{mul(s.coefficient, t.coefficient), s.atoms};
      product.atoms.insert(product.atoms.end(), t.atoms.begin(), t.atoms.end());
      std::sort(product.atoms.begin(), product.atoms.end(), [](const Atom& x, const Atom& y) { return compare(x, y) < 0; });
      out.push_back(std::move(product));
    }
  }
  return DimAccess::make(collect(std::move(out)));
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return divide(a.constant_, b.constant_);
  if (b.is_constant() && b.constant_ == 0) fail(Code::invalid_input, "a size is divided by zero");
  if (b.is_constant() && b.constant_ == 1) return a;
  auto [whole, rest] = split_multiple(a, b);
  if (rest.is_constant() && rest.constant_ == 0) return whole;
  // A constant rest smaller than a constant divisor does not carry into the quotient.
  if (rest.is_constant() && b.is_constant()) return whole + divide(rest.constant_, b.constant_);
  if (!(whole.is_constant() && whole.constant_ == 0)) return whole + floordiv(rest, b);
  if (int64_t g = common_factor(a, b); g > 1) return floordiv(divided(a, g), divided(b, g));
  // floordiv(floordiv(x, m), n) = floordiv(x, m*n) for positive constants.
  std::vector<Term> terms = terms_of(a);
  if (b.is_constant() && terms.size() == 1 && terms[0].coefficient == 1 && terms[0].atoms.size() == 1 && terms[0].atoms[0].kind == Dim::Kind::floordiv) {
    const Atom& inner = terms[0].atoms[0];
    if (inner.b.is_constant() && inner.b.constant_ > 0 && b.constant_ > 0) return floordiv(inner.a, mul(inner.b.constant_, b.constant_));
  }
  return from_atom(Atom{Dim::Kind::floordiv, 0, a, b});
}

Dim mod(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.constant_ == 0) fail(Code::invalid_input, "a size is divided by zero");
    return remainder(a.constant_, b.constant_);
  }
  if (b.is_constant() && (b.constant_ == 1 || b.constant_ == -1)) return 0;
  auto [whole, rest] = split_multiple(a, b);
  if (rest.is_constant() && rest.constant_ == 0) return 0;
  if (rest.is_constant() && b.is_constant()) return remainder(rest.constant_, b.constant_);
  if (int64_t g = common_factor(rest, b); g > 1) return Dim(g) * mod(divided(rest, g), divided(b, g));
  return from_atom(Atom{Dim::Kind::mod, 0, rest, b});
}

Dim min(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::min(a.constant_, b.constant_);
  if (Dim difference = a - b; difference.is_constant()) return difference.constant_ <= 0 ? a : b;
  return compare(a, b) < 0 ? from_atom(Atom{Dim::Kind::min, 0, a, b}) : from_atom(Atom{Dim::Kind::min, 0, b, a});
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return std::max(a.constant_, b.constant_);
  if (Dim difference = a - b; difference.is_constant()) return difference.constant_ >= 0 ? a : b;
  return compare(a, b) < 0 ? from_atom(Atom{Dim::Kind::max, 0, a, b}) : from_atom(Atom{Dim::Kind::max, 0, b, a});
}

Dim ceildiv(const Dim& a, const Dim& b) { return -floordiv(-a, b); }

Dim product(const Dims& dims) {
  Dim p = 1;
  for (const Dim& d : dims) p *= d;
  return p;
}

std::optional<Dim> scaled(const Dim& size, double factor) {
  constexpr int64_t max_bottom = 4096, max_top = 1'000'000'000;
  for (int64_t bottom = 1; bottom <= max_bottom && factor > 0; ++bottom) {
    const double top = std::round(factor * static_cast<double>(bottom));
    if (!(top < max_top)) return std::nullopt;
    if (top / static_cast<double>(bottom) != factor) continue;
    // A factor below the fraction makes products below whole numbers. float64 rounds all of them up only if the factor is at most 2^-54 of itself too small.
    const double missing = std::fma(-factor, static_cast<double>(bottom), top);
    if (std::ldexp(missing, 54) > top) return std::nullopt;
    return floordiv(size * Dim(static_cast<int64_t>(top)), bottom);
  }
  return std::nullopt;
}

bool operator==(const Dim& a, const Dim& b) { return compare(a, b) == 0; }

Dim::Expression Dim::expression() const {
  if (!node_) return {Kind::constant, constant_, {}};
  const std::vector<Term>& terms = node_->terms;
  if (terms.size() > 1) {
    Expression sum{Kind::add, 0, {}};
    for (const Term& t : terms) sum.parts.push_back(DimAccess::make({t}));
    return sum;
  }
  const Term& t = terms[0];
  if (t.coefficient == 1 && t.atoms.size() == 1) {
    const Atom& atom = t.atoms[0];
    if (atom.kind == Kind::symbol) return {Kind::symbol, atom.symbol, {}};
    return {atom.kind, 0, {atom.a, atom.b}};
  }
  Expression product{Kind::mul, 0, {}};
  if (t.coefficient != 1) product.parts.push_back(t.coefficient);
  for (const Atom& atom : t.atoms) product.parts.push_back(from_atom(atom));
  return product;
}

namespace {

// Folds an expression bottom-up with the given arithmetic.
template <class T, class Leaf, class Apply>
T fold(const Dim& d, const Leaf& leaf, const Apply& apply) {
  Dim::Expression e = d.expression();
  if (e.parts.empty()) return leaf(e);
  T result = fold<T>(e.parts[0], leaf, apply);
  for (size_t i = 1; i < e.parts.size(); ++i) result = apply(e.kind, result, fold<T>(e.parts[i], leaf, apply));
  return result;
}

Dim apply_kind(Dim::Kind kind, const Dim& a, const Dim& b) {
  switch (kind) {
    case Dim::Kind::add: return a + b;
    case Dim::Kind::mul: return a * b;
    case Dim::Kind::floordiv: return floordiv(a, b);
    case Dim::Kind::mod: return mod(a, b);
    case Dim::Kind::min: return min(a, b);
    default: return max(a, b);
  }
}

int64_t saturate(__int128 v) {
  if (v > INT64_MAX) return INT64_MAX;
  if (v < INT64_MIN) return INT64_MIN;
  return static_cast<int64_t>(v);
}

}  // namespace

int64_t Dim::evaluate(std::span<const int64_t> symbols) const {
  if (!node_) return constant_;
  return fold<Dim>(
             *this,
             [&](const Expression& e) -> Dim {
               if (e.kind == Kind::constant) return e.value;
               if (static_cast<size_t>(e.value) >= symbols.size()) fail(Code::internal, "size symbol {} has no value", e.value);
               return symbols[static_cast<size_t>(e.value)];
             },
             apply_kind)
      .value();
}

Dim Dim::substitute(const std::function<std::optional<Dim>(SymbolId)>& of) const {
  if (!node_) return *this;
  return fold<Dim>(
      *this,
      [&](const Expression& e) -> Dim {
        if (e.kind == Kind::constant) return e.value;
        if (auto d = of(static_cast<SymbolId>(e.value))) return *d;
        return Dim::symbol(static_cast<SymbolId>(e.value));
      },
      apply_kind);
}

Range Dim::range(std::span<const Symbol> symbols) const {
  // INT64_MIN and INT64_MAX stand for no bound: sums and products saturate there.
  return fold<Range>(
      *this,
      [&](const Expression& e) -> Range {
        if (e.kind == Kind::constant) return {e.value, e.value};
        auto id = static_cast<size_t>(e.value);
        return id < symbols.size() ? Range{symbols[id].min, symbols[id].max} : Range{INT64_MIN, INT64_MAX};
      },
      [](Kind kind, const Range& a, const Range& b) -> Range {
        auto unbounded = [](int64_t v) { return v == INT64_MAX || v == INT64_MIN; };
        switch (kind) {
          case Kind::add:
            return {unbounded(a.min) || unbounded(b.min) ? INT64_MIN : saturate(__int128{a.min} + b.min),
                    unbounded(a.max) || unbounded(b.max) ? INT64_MAX : saturate(__int128{a.max} + b.max)};
          case Kind::mul: {
            __int128 c[] = {__int128{a.min} * b.min, __int128{a.min} * b.max, __int128{a.max} * b.min, __int128{a.max} * b.max};
            return {saturate(*std::min_element(c, c + 4)), saturate(*std::max_element(c, c + 4))};
          }
          case Kind::floordiv:
            if (b.min > 0) {
              auto q = [&](int64_t x, int64_t y) { return unbounded(x) ? x : divide(x, y); };
              return {std::min(q(a.min, b.min), q(a.min, b.max)), std::max(q(a.max, b.min), q(a.max, b.max))};
            }
            return {INT64_MIN, INT64_MAX};
          case Kind::mod:
            if (b.min > 0) return {0, b.max == INT64_MAX ? INT64_MAX : b.max - 1};
            return {INT64_MIN, INT64_MAX};
          case Kind::min: return {std::min(a.min, b.min), std::min(a.max, b.max)};
          default: return {std::max(a.min, b.min), std::max(a.max, b.max)};
        }
      });
}

void Dim::collect_symbols(std::vector<SymbolId>& out) const {
  Expression e = expression();
  if (e.kind == Kind::symbol) {
    auto id = static_cast<SymbolId>(e.value);
    if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  }
  for (const Dim& part : e.parts) part.collect_symbols(out);
}

size_t Dim::hash() const {
  Expression e = expression();
  size_t h = static_cast<size_t>(e.kind) * 0x9e3779b97f4a7c15ULL + static_cast<size_t>(e.value);
  for (const Dim& part : e.parts) h = (h ^ part.hash()) * 0x100000001b3ULL;
  return h;
}

Truth known_equal(const Dim& a, const Dim& b, std::span<const Symbol> symbols) {
  Dim difference = a - b;
  if (difference.is_constant()) return difference.value() == 0 ? Truth::yes : Truth::no;
  Range r = difference.range(symbols);
  if (r.min == 0 && r.max == 0) return Truth::yes;
  return r.min > 0 || r.max < 0 ? Truth::no : Truth::unknown;
}

Truth known_less(const Dim& a, const Dim& b, std::span<const Symbol> symbols) {
  Range r = (b - a).range(symbols);
  if (r.min > 0) return Truth::yes;
  if (r.max <= 0) return Truth::no;
  return Truth::unknown;
}

}  // namespace ingot::ir
