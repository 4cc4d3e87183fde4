// What a machine can do, in numbers: the one place for the rates of offers, of storage decisions, of the partition and of the split of work.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/target.h"

namespace ingot {

inline constexpr double nanoseconds_of_second = 1e9;

// A CPU's rates are those of one core; a GPU's those of the whole. A rate is for a nanosecond, a time in nanoseconds.
struct Machine {
#define X(name, meaning) double name = 0;
#include "base/machine.def"
#undef X
  bool operator==(const Machine&) const = default;
};

struct MachineField {
  std::string_view name, meaning;
  double Machine::* value;
};
std::span<const MachineField> machine_fields();

// A row of the table: "cpu:avx2", "cuda:sm_90".
struct KnownMachine {
  std::string_view name;
  Machine machine;
};
std::span<const KnownMachine> known_machines();
// The row of this name. Error (internal) if there is none.
const Machine& machine_named(std::string_view name);
// The row for which a target's plans are made: of a CPU the one with AVX-512, of a GPU the newest one that is not newer than it.
const Machine& machine_for(const Target&);

// "lanes=16 f32=59 ..": all fields in order, each with the digits that give the same number again.
std::string text_of(const Machine&);
// nullopt if a field is missing, unknown or twice there, or if its number is none that a machine can have.
std::optional<Machine> parse_machine(std::string_view);

}  // namespace ingot
