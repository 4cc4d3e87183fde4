// Changes one token of a text: a number, a word or a quoted string becomes another one of the same text or a value that hurts. What structure the
// text has stays, so that readers get past their first line.
#pragma once
#include <algorithm>
#include <cctype>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

namespace ingot::fuzz {

struct Token {
  size_t begin, end;
};

// The token at or behind a place; empty at the end of the text.
inline Token token_at(std::string_view text, size_t at) {
  auto inside = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-'; };
  while (at > 0 && at < text.size() && inside(text[at]) && inside(text[at - 1])) --at;
  while (at < text.size() && !inside(text[at])) ++at;
  size_t end = at;
  while (end < text.size() && inside(text[end])) ++end;
  return {at, end};
}

// keep_length: what stands behind stays where it is, as offsets in an archive want; shorter tokens are filled up with blanks.
inline void change_token(std::string& text, std::minstd_rand& random, bool keep_length) {
  if (text.empty()) return;
  const Token old = token_at(text, random() % text.size());
  if (old.begin == old.end) return;
  static constexpr const char* numbers[] = {"0",    "1",   "-1", "2", "3", "7", "255", "65536", "2147483647", "4294967296", "9223372036854775807", "-9223372036854775808",
                                            "1e99", "0.5", "nan"};
  static constexpr const char* words[] = {"null", "true", "false", "inf", "f32", "i64", "b8", "bf16", "[]", "{}", "floordiv", "mod", "max"};
  std::string made;
  const bool number = std::isdigit(static_cast<unsigned char>(text[old.end - 1])) != 0;
  switch (random() % 4) {
    case 0: made = number ? numbers[random() % std::size(numbers)] : words[random() % std::size(words)]; break;
    case 1: made = numbers[random() % std::size(numbers)]; break;
    default: {
      const Token other = token_at(text, random() % text.size());
      made = text.substr(other.begin, other.end - other.begin);
    }
  }
  if (keep_length) {
    if (made.size() > old.end - old.begin) return;
    made.resize(old.end - old.begin, ' ');
  }
  text.replace(old.begin, old.end - old.begin, made);
}

// Swaps, repeats or drops whole lines.
inline void change_lines(std::string& text, std::minstd_rand& random) {
  auto line_at = [&](size_t at) {
    size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1);
    begin = begin == std::string::npos ? 0 : begin + (begin < text.size() && text[begin] == '\n' ? 1 : 0);
    size_t end = text.find('\n', at);
    return Token{std::min(begin, text.size()), end == std::string::npos ? text.size() : end + 1};
  };
  if (text.empty()) return;
  const Token from = line_at(random() % text.size()), to = line_at(random() % text.size());
  if (from.begin >= from.end) return;
  const std::string line = text.substr(from.begin, from.end - from.begin);
  switch (random() % 3) {
    case 0: text.insert(to.begin, line); break;
    case 1: text.erase(from.begin, from.end - from.begin); break;
    default: text.replace(to.begin, to.end - to.begin, line);
  }
}

}  // namespace ingot::fuzz
