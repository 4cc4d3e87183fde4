// What a program is compiled for, and the one text form of it: "cpu", "cuda:sm_90", "reference".
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace ingot {

struct Target {
  enum class Kind { cpu, cuda, reference } kind = Kind::cpu;
  int architecture = 0;  // of a GPU: 90 is sm_90

  std::string text() const;
  bool operator==(const Target&) const = default;
};

inline Target cuda_target(int architecture) { return {Target::Kind::cuda, architecture}; }
std::optional<Target> parse_target(std::string_view);

}  // namespace ingot
