#include "base/target.h"

#include <algorithm>
#include <charconv>

namespace ingot {

namespace {

constexpr std::string_view cuda = "cuda:sm_";

}  // namespace

std::string Target::text() const {
  switch (kind) {
    case Kind::cpu: return "cpu";
    case Kind::cuda: return std::string(cuda) + std::to_string(architecture);
    case Kind::reference: return "reference";
  }
  __builtin_unreachable();
}

std::optional<Target> parse_target(std::string_view text) {
  if (text == "cpu") return Target();
  if (text == "reference") return Target{Target::Kind::reference};
  if (!text.starts_with(cuda)) return std::nullopt;
  text.remove_prefix(cuda.size());
  if (text.size() < 2 || text.size() > 3 || text[0] == '0' || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  int architecture = 0;
  std::from_chars(text.data(), text.data() + text.size(), architecture);
  return cuda_target(architecture);
}

}  // namespace ingot
