// Sizes as text, and read back.
#include <charconv>

#include "base/error.h"
#include "ir/dim.h"

namespace ingot::ir {

namespace {

bool is_letter(char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }

// Names are the user's: one that is not a plain word is in quotes, other characters than plain ones as hex.
std::string symbol_text(const std::string& name) {
  bool plain = !name.empty() && is_letter(name[0]);
  for (char c : name) plain = plain && (is_letter(c) || digit(c));
  if (plain) return name;
  std::string out = "'";
  for (char c : name) {
    auto u = static_cast<unsigned char>(c);
    const bool as_it_is = is_letter(c) || digit(c) || std::string_view(" -.").find(c) != std::string_view::npos;
    if (as_it_is || u >= 0x80) {
      out += c;
    } else {
      out += fmt::format("\\{:02x}", u);
    }
  }
  return out + "'";
}

}  // namespace

std::string Dim::text(std::span<const Symbol> symbols) const {
  Expression e = expression();
  auto joined = [&](const char* separator) {
    std::string s;
    for (size_t i = 0; i < e.parts.size(); ++i) {
      Expression part = e.parts[i].expression();
      std::string t = e.parts[i].text(symbols);
      bool negative = e.kind == Kind::add && i > 0 && t.starts_with('-') && !t.starts_with("-9223372036854775808");
      if (negative) t = t.substr(1);
      if (i > 0) s += negative ? " - " : separator;
      s += e.kind == Kind::mul && part.kind == Kind::add ? "(" + t + ")" : t;
    }
    return s;
  };
  switch (e.kind) {
    case Kind::constant: return std::to_string(e.value);
    case Kind::symbol: {
      auto id = static_cast<size_t>(e.value);
      return id < symbols.size() ? symbol_text(symbols[id].name) : "s?" + std::to_string(id);
    }
    case Kind::add: return joined(" + ");
    case Kind::mul: {
      std::string t = joined("*");
      return t.starts_with("-1*") ? "-" + t.substr(3) : t;
    }
    case Kind::floordiv: return "floordiv(" + joined(", ") + ")";
    case Kind::mod: return "mod(" + joined(", ") + ")";
    case Kind::min: return "min(" + joined(", ") + ")";
    case Kind::max: return "max(" + joined(", ") + ")";
  }
  return {};
}

namespace {

// Reads sums of products of numbers, names, functions and parentheses.
class DimReader {
 public:
  DimReader(std::string_view text, const std::function<SymbolId(std::string_view)>& resolve) : text_(text), resolve_(resolve) {}
  Dim read() {
    Dim d = sum(0);
    skip();
    if (at_ != text_.size()) bad("unexpected text");
    return d;
  }

 private:
  [[noreturn]] void bad(const char* what) { fail(Code::format, "size expression \"{}\": {} at position {}", text_, what, at_); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Dim sum(int depth) {
    if (depth > 100) bad("nested too deep");
    Dim d = product(depth);
    for (;;) {
      if (take('+')) {
        d += product(depth);
      } else if (take('-')) {
        d = d - product(depth);
      } else {
        return d;
      }
    }
  }
  Dim product(int depth) {
    Dim d = factor(depth);
    while (take('*')) d *= factor(depth);
    return d;
  }
  Dim factor(int depth) {
    bool negative = take('-');
    if (take('(')) {
      Dim d = sum(depth + 1);
      if (!take(')')) bad("')' expected");
      return negative ? -d : d;
    }
    size_t begin = at_;
    auto at = [&](bool (*kind)(char)) { return at_ < text_.size() && kind(text_[at_]); };
    if (at(digit)) {
      if (negative && begin > 0 && text_[begin - 1] == '-') --begin, negative = false;  // the smallest number exists only with its sign
      int64_t v = 0;
      auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), v);
      if (error != std::errc()) bad("a number does not fit 64 bits");
      at_ = static_cast<size_t>(end - text_.data());
      return negative ? -v : v;
    }
    if (at_ < text_.size() && text_[at_] == '\'') {
      Dim d = Dim::symbol(resolve_(quoted()));
      return negative ? -d : d;
    }
    if (!at(is_letter)) bad("a number or a name expected");
    while (at(is_letter) || at(digit)) ++at_;
    std::string_view name = text_.substr(begin, at_ - begin);
    Dim d = take('(') ? call(name, depth) : Dim::symbol(resolve_(name));
    return negative ? -d : d;
  }
  std::string quoted() {
    std::string name;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\'') {
        ++at_;
        return name;
      }
      if (text_[at_] != '\\') {
        name += text_[at_];
        continue;
      }
      unsigned v = 0;
      if (at_ + 3 > text_.size()) break;
      const char* from = text_.data() + at_ + 1;
      auto [end, error] = std::from_chars(from, from + 2, v, 16);
      if (error != std::errc() || end != from + 2) bad("a bad escape");
      name += static_cast<char>(v);
      at_ += 2;
    }
    bad("a name without an end");
  }
  Dim call(std::string_view name, int depth) {
    Dim a = sum(depth + 1);
    if (!take(',')) bad("',' expected");
    Dim b = sum(depth + 1);
    if (!take(')')) bad("')' expected");
    if (name == "floordiv") return floordiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    bad("unknown function");
  }

  std::string_view text_;
  const std::function<SymbolId(std::string_view)>& resolve_;
  size_t at_ = 0;
};

}  // namespace

Dim parse_dim(std::string_view text, const std::function<SymbolId(std::string_view)>& resolve) { return DimReader(text, resolve).read(); }

}  // namespace ingot::ir
