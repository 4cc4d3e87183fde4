#include "ir/tokens.h"

namespace ingot::ir {

namespace {

bool letter(char c) { return c == '_' || c == '-' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

void Tokens::bad(std::string_view what) {
  failed_ = true;
  fail(Code::format, "graph text, line {}: {}", line_, what);
}

void Tokens::skip_spaces() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
}

char Tokens::peek() {
  skip_spaces();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Tokens::take(std::string_view token) {
  skip_spaces();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Tokens::want(std::string_view token) {
  if (!take(token)) bad(fmt::format("\"{}\" expected", token));
}

void Tokens::end_line() {
  skip_spaces();
  if (at_ < text_.size() && text_[at_] != '\n') bad("unexpected text at the end");
  ++at_;
  ++line_;
}

std::string_view Tokens::name() {
  skip_spaces();
  size_t begin = at_;
  while (at_ < text_.size() && letter(text_[at_])) ++at_;
  if (begin == at_) bad("a name expected");
  return text_.substr(begin, at_ - begin);
}

void Tokens::word(std::string_view w) {
  if (name() != w) bad(fmt::format("\"{}\" expected", w));
}

int64_t Tokens::integer() {
  skip_spaces();
  int64_t v = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
  if (error != std::errc()) bad("an integer expected");
  at_ = static_cast<size_t>(end - text_.data());
  return v;
}

uint32_t Tokens::small() {
  int64_t v = integer();
  if (v < 0 || v >= static_cast<int64_t>(UINT32_MAX)) bad("a number out of range");
  return static_cast<uint32_t>(v);
}

std::string Tokens::quoted() {
  want("\"");
  std::string s;
  for (;;) {
    if (at_ >= text_.size()) bad("a text without an end");
    char c = text_[at_++];
    if (c == '"') return s;
    if (c == '\n') bad("a text without an end");
    if (c != '\\') {
      s += c;
      continue;
    }
    if (at_ >= text_.size()) bad("a text without an end");
    c = text_[at_++];
    if (c == 'n') {
      s += '\n';
    } else if (c == 'x') {
      unsigned v = 0;
      const char* from = text_.data() + at_;
      if (at_ + 2 > text_.size()) bad("a text without an end");
      auto [end, error] = std::from_chars(from, from + 2, v, 16);
      if (error != std::errc() || end != from + 2) bad("a bad escape");
      at_ += 2;
      s += static_cast<char>(v);
    } else {
      s += c;
    }
  }
}

// Text up to one of `stops` outside parentheses.
std::string_view Tokens::until(std::string_view stops) {
  skip_spaces();
  size_t begin = at_;
  int depth = 0;
  for (bool quoted = false; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    char c = text_[at_];
    if (c == '\'') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && stops.find(c) != std::string_view::npos) return text_.substr(begin, at_ - begin);
    depth += c == '(';
    depth -= c == ')';
  }
  bad("an expression without an end");
}

std::string_view Tokens::run_of(std::string_view characters) const {
  const size_t end = text_.find_first_not_of(characters, at_);
  return text_.substr(at_, end == std::string_view::npos ? end : end - at_);
}

}  // namespace ingot::ir
