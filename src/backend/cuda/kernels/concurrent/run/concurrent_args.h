// Independent steps of one kernel as one step, on CUDA: what each launches becomes a row of blocks of one launch.
//
// Operands: what the steps read, step by step, then what they write, in the same order. Sizes: step by step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ingot::kernels {

struct ConcurrentArgs {
  struct Step {
    uint16_t operands, writes, sizes;
    uint32_t bytes;  // of its constants
  };
  std::string kernel;  // RunKernel::name of each step
  std::vector<Step> steps;
  std::vector<std::byte> constants;  // step by step
};
std::vector<std::byte> serialise(const ConcurrentArgs&);
// Error (format).
ConcurrentArgs parse_concurrent(std::span<const std::byte>);

}  // namespace ingot::kernels
