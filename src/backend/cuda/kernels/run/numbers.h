// The values of a printed kernel's numbers for one set of sizes: see numbers_args.h.
#pragma once
#include <span>
#include <vector>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/kernels/run/numbers_args.h"

namespace ingot::kernels {

// `operands` and `sizes`: those that the numbers refer to.
struct CudaNumbers {
  std::span<const TensorRef> operands;
  std::span<const int64_t> sizes;

  // An axis of size 1 has stride 0.
  int64_t value(const CudaNumber&) const;
  // Error (format), naming `step`, if a value that the text relies on differs.
  void check(std::span<const CudaKnown>, const char* step) const;
  // Appends status, pointers and numbers to a kernel's parameters. `first`: the step's operand of the first pointer.
  void append(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers, std::span<const CudaNumber> numbers, size_t first) const;
};

}  // namespace ingot::kernels
