// Arguments of the "external" step: a kernel of the user's.
//
// operands = its tensors in any order (`inputs` says which is which), then what is written: the new values of the inputs that it writes in place, then its results.
// sizes = its numbers that are sizes; on a GPU then the grid, the bytes of shared memory and the sizes behind its numbers. All operands are row-major.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::kernels {

// A function in a shared library, and the SHA-256 of the file in hexadecimal.
struct HostCode {
  std::string library, symbol, sha256;
  bool operator==(const HostCode&) const = default;
};

struct ExternalNumber {
  enum class Kind : uint8_t { boolean, integer, real, size } kind = Kind::integer;
  int64_t integer = 0;                  // size: the index in the step's sizes
  double real = 0;
};

struct ExternalArgs {
  std::string name;                     // of the operator
  std::vector<uint32_t> inputs;         // of each input: the operand of the step
  std::vector<uint32_t> written;        // of each input that is written in place: its number in `inputs`; its new value is the next of the written operands
  uint32_t results = 0;
  std::vector<ExternalNumber> numbers;
  // Of one program: where the code is.
  HostCode host;                        // on the CPU
  std::string entry;                    // on a GPU: the kernel by its name in the plan's code,
  std::array<uint32_t, 3> block{1, 1, 1};
  uint8_t number_bytes = 8;

  size_t operands() const { return inputs.size() + written.size() + results; }
};

std::vector<std::byte> serialise(const ExternalArgs&);
// Error (format) when the bytes are none, or do not fit a step of so many operands and sizes.
ExternalArgs parse_external(std::span<const std::byte>, size_t operands, size_t sizes);

struct Call;
// Error (format) where an operand is not row-major, or a new value is not like what it is made of.
void check_external(const Call&, const ExternalArgs&);
// True if there is nothing to compute: each result has no elements.
bool is_empty(const Call&, const ExternalArgs&);

}  // namespace ingot::kernels
