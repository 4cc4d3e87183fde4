// The one exception of ingot. src/api turns it into a status. Elsewhere it is caught to say more and be thrown again, or where the caller has another way (an operator that
// is left to torch, a cache that cannot be read).
#pragma once
#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

// The same numbers as ingot_status in include/ingot/ingot.h (src/api checks).
enum class Code : int {
  ok = 0,
  internal,
  unsupported,
  invalid_input,
  invalid_option,
  format,
  version,
  out_of_memory,
  device,
  accuracy,
  cancelled,
  io,
  singular,
};

struct Error : std::exception {
  Code code;
  std::string message;  // what happened to which value, and why
  std::string origin;   // where in the user's program
  std::string remedy;   // what to do

  Error(Code c, std::string m, std::string o = {}, std::string r = {}) : code(c), message(std::move(m)), origin(std::move(o)), remedy(std::move(r)) {}
  const char* what() const noexcept override { return message.c_str(); }
  Error& at(std::string o) {
    origin = std::move(o);
    return *this;
  }
  Error& fix(std::string r) {
    remedy = std::move(r);
    return *this;
  }
};

// fail(Code::format, "section {} ends at {}", name, end)
template <class... A>
[[noreturn]] void fail(Code code, fmt::format_string<A...> text, A&&... a) {
  throw Error(code, fmt::format(text, std::forward<A>(a)...));
}

}  // namespace ingot
