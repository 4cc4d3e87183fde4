// Splits the text form of graphs into tokens. Whatever is wrong is an Error naming the line.
#pragma once
#include <charconv>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ingot::ir {

class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ >= text_.size(); }
  // The next character that is not a space; '\0' at the end.
  char peek();
  bool starts_with(std::string_view token) const { return text_.substr(at_, token.size()) == token; }
  size_t position() const { return at_; }
  void go_back(size_t position) { at_ = position; }

  bool take(std::string_view token);
  void want(std::string_view token);
  void end_line();
  std::string_view name();
  void word(std::string_view w);
  int64_t integer();
  // Below UINT32_MAX.
  uint32_t small();
  // The longest run of these characters. Nothing is taken.
  std::string_view run_of(std::string_view characters) const;
  void skip(size_t characters) { at_ += characters; }
  std::string quoted();
  // Text up to one of `stops` outside parentheses.
  std::string_view until(std::string_view stops);

  [[noreturn]] void bad(std::string_view what);
  bool has_failed() const { return failed_; }  // the error under way names its line

 private:
  void skip_spaces();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool failed_ = false;
};

}  // namespace ingot::ir
