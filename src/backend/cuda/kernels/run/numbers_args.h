// What printed kernels that end in a list of pointers and numbers are given beside their own parameters: u64 status, u64 pointers[operands],
// i64 numbers[numbers].
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

// What a text takes for granted.
struct CudaKnown {
  CudaNumber number;
  int64_t value;
};

}  // namespace ingot::kernels
