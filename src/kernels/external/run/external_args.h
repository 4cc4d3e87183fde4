// Constants of the "external" step, a registered kernel.
//
// Operands, all row-major: its tensors in any order (`inputs` gives their roles), then what is written: the new values of inputs that it updates in place,
// then its results. Sizes: its numbers that are sizes; on a GPU then the grid, the bytes of shared memory, and the sizes after its numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::kernels {

// A function in a shared library, with the SHA-256 of the file in hexadecimal.
struct HostCode {
  std::string library, symbol, sha256;
  bool operator==(const HostCode&) const = default;
};

struct ExternalNumber {
  enum class Kind : uint8_t { boolean, integer, real, size } kind = Kind::integer;
  int64_t integer = 0;                  // size: index in the step's sizes
  double real = 0;
};

struct ExternalArgs {
  std::string name;                     // of the operator
  std::vector<uint32_t> inputs;         // per input: the operand of the step
  std::vector<uint32_t> written;        // per input that is updated in place: its index in `inputs`; the new values are the first written operands, in this order
  uint32_t results = 0;
  std::vector<ExternalNumber> numbers;
  // The code for the program's target:
  HostCode host;                        // on the CPU
  std::string entry;                    // on a GPU: the kernel's name in the plan's code,
  std::array<uint32_t, 3> block{1, 1, 1};
  uint8_t number_bytes = 8;

  size_t operands() const { return inputs.size() + written.size() + results; }
};

std::vector<std::byte> serialise(const ExternalArgs&);
// Error (format) for invalid bytes, or bytes that do not fit a step with this number of operands and sizes.
ExternalArgs parse_external(std::span<const std::byte>, size_t operands, size_t sizes);

struct Call;
// Error (format) if an operand is not row-major, or a new value differs from its input in dtype or dims.
void check_external(const Call&, const ExternalArgs&);
// True if no result has elements.
bool is_empty(const Call&, const ExternalArgs&);

}  // namespace ingot::kernels
