// What printed kernels with a body are given for one set of sizes: see numbers_cuda_args.h.
#pragma once
#include <span>
#include <vector>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/kernels/run/numbers_args.h"

namespace ingot::kernels {

// `operands` and `sizes` are those that the numbers count.
struct CudaNumbers {
  std::span<const TensorRef> operands;
  std::span<const int64_t> sizes;

  // An axis of size 1 has stride 0.
  int64_t value(const CudaNumber&) const;
  // Error (format), which names `step`, where the text takes for granted what is not so.
  void check(std::span<const CudaKnown>, const char* step) const;
  // Appends status, pointers and numbers to a kernel's parameters. `first`: the step's operand that the first pointer is.
  void append(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers, std::span<const CudaNumber> numbers, size_t first) const;
};

}  // namespace ingot::kernels
