// The parameters of printed kernels with a body, after their own: u64 status, u64 pointers[operands], i64 numbers[numbers].
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct CudaNumber {
  enum Kind : uint8_t { size, stride, dim } kind = size;
  uint8_t a = 0, b = 0;  // size a; of operand a on axis b
  bool operator==(const CudaNumber&) const = default;
};

// A value of a number that a text relies on.
struct CudaKnown {
  CudaNumber number;
  int64_t value;
};

}  // namespace ingot::kernels
