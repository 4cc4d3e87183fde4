#include "capture/guard.h"

#include <charconv>
#include <string>
#include <utility>

#include "base/error.h"

namespace ingot::capture {

namespace {

using ir::Dim;

// Raised for a text of another form; does not leave this file.
struct Unknown {};

// A size, or conditions that all hold.
struct Value {
  Dim size = 0;
  std::vector<Condition> conditions = {};
  bool is_size() const { return conditions.empty(); }
};

class GuardParser {
 public:
  GuardParser(std::string_view text, const std::function<std::optional<Dim>(std::string_view)>& resolve) : text_(text), resolve_(resolve) {}

  std::vector<Condition> run() {
    Value v = either();
    skip();
    if (at_ != text_.size() || v.is_size()) throw Unknown{};
    return std::move(v.conditions);
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw Unknown{};
  }
  static Dim size_of(const Value& v) { return v.is_size() ? v.size : throw Unknown{}; }

  Value either() {
    if (++depth_ > 64) throw Unknown{};
    Value v = all_of();
    std::vector<std::vector<Condition>> parts{v.conditions};
    while (take("or ")) {
      parts.push_back(all_of().conditions);
      if (parts[0].empty() || parts.back().empty()) throw Unknown{};
    }
    --depth_;
    return parts.size() == 1 ? v : Value{0, {Condition{.either = std::move(parts)}}};
  }

  Value all_of() {
    Value v = relation();
    while (take("and ")) {
      Value next = relation();
      if (v.is_size() || next.is_size()) throw Unknown{};
      v.conditions.insert(v.conditions.end(), next.conditions.begin(), next.conditions.end());
    }
    return v;
  }

  Value relation() {
    Value left = sum();
    for (std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(sign)) continue;
      Dim a = size_of(left), b = size_of(sum());
      if (sign[0] == '>') std::swap(a, b);
      if (sign == "<" || sign == ">") a += 1;
      return {0, {Condition{std::move(a), std::move(b), sign == "==", sign == "!="}}};
    }
    return left;
  }

  Value sum() {
    Value v = product();
    while (true) {
      if (take("+")) {
        v = {size_of(v) + size_of(product())};
      } else if (take("-")) {
        v = {size_of(v) - size_of(product())};
      } else {
        return v;
      }
    }
  }

  Value product() {
    Value v = signed_power();
    while (true) {
      if (take("//")) {
        v = {floordiv(size_of(v), size_of(signed_power()))};
      } else if (take("%")) {
        v = {mod(size_of(v), size_of(signed_power()))};
      } else if (take("*")) {
        v = {size_of(v) * size_of(signed_power())};
      } else {
        return v;  // "/" makes a fraction: unknown where it stands
      }
    }
  }

  Value signed_power() {
    int64_t sign = 1;
    while (take("-")) sign = -sign;
    Value v = operand();
    if (!take("**")) return sign == 1 ? v : Value{-size_of(v)};
    const std::optional<int64_t> power = size_of(operand()).constant();
    if (!power || *power < 0 || *power > 8) throw Unknown{};
    Dim out = sign;
    for (int64_t i = 0; i < *power; ++i) out *= size_of(v);
    return {out};
  }

  Value operand() {
    if (take("(")) {
      Value v = either();
      expect(")");
      return v;
    }
    const bool is_max = take("max(");
    if (is_max || take("min(")) {
      Dim out = size_of(either());
      while (take(",")) out = is_max ? max(out, size_of(either())) : min(out, size_of(either()));
      expect(")");
      return {out};
    }
    skip();
    return {text_.substr(at_).starts_with("L[") ? source() : number()};
  }

  Dim number() {
    int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    at_ = static_cast<size_t>(end - text_.data());
    if (error != std::errc() || (at_ < text_.size() && text_[at_] == '.')) throw Unknown{};
    return v;
  }

  // L['x'], then any of [..], .name and ().
  Dim source() {
    const size_t begin = at_++;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '[') {
        const char quote = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        const size_t end = quote == '\'' || quote == '"' ? text_.find(std::string{quote, ']'}, at_ + 2) : text_.find(']', at_);
        if (end == std::string_view::npos) throw Unknown{};
        at_ = end + (text_[end] == ']' ? 1 : 2);
      } else if (c == '(' && text_.substr(at_).starts_with("()")) {
        at_ += 2;
      } else if (c == '.') {
        ++at_;
        while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
      } else {
        break;
      }
    }
    std::optional<Dim> d = resolve_(text_.substr(begin, at_ - begin));
    return d ? *d : throw Unknown{};
  }

  std::string_view text_;
  const std::function<std::optional<Dim>(std::string_view)>& resolve_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::vector<Condition>> parse_guard(std::string_view text, const std::function<std::optional<Dim>(std::string_view)>& resolve) {
  try {
    return GuardParser(text, resolve).run();
  } catch (const Unknown&) {
    return std::nullopt;
  } catch (const Error&) {  // its arithmetic overflows, or divides by zero
    return std::nullopt;
  }
}

}  // namespace ingot::capture
