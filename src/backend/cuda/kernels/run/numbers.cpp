#include "backend/cuda/kernels/run/numbers.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace ingot::kernels {

int64_t CudaNumbers::value(const CudaNumber& n) const {
  if (n.kind == CudaNumber::size) return sizes[n.a];
  const TensorRef& x = operands[n.a];
  if (n.kind == CudaNumber::dim) return x.dims[n.b];
  return x.dims[n.b] == 1 ? 0 : x.strides[n.b];
}

void CudaNumbers::check(std::span<const CudaKnown> known, const char* step) const {
  for (const CudaKnown& k : known) {
    // A stride of an axis of size 1 is never used and may be anything.
    bool idle = k.number.kind == CudaNumber::stride && operands[k.number.a].dims[k.number.b] <= 1;
    if (!idle && value(k.number) != k.value) fail(Code::format, "{} step was compiled for {} and gets {}", step, k.value, value(k.number));
  }
}

void CudaNumbers::append(std::vector<std::byte>& parameters, std::vector<CudaLaunch::Pointer>& pointers, std::span<const CudaNumber> numbers, size_t first) const {
  using Pointer = CudaLaunch::Pointer;
  const size_t start = parameters.size(), from = start + 8 * (1 + operands.size());
  parameters.resize(from + 8 * std::max<size_t>(1, numbers.size()));
  pointers.push_back({Pointer::status, start});
  for (size_t k = 0; k < operands.size(); ++k) pointers.push_back({Pointer::operand, start + 8 * (1 + k), first + k});
  for (size_t k = 0; k < numbers.size(); ++k) {
    int64_t v = value(numbers[k]);
    std::memcpy(parameters.data() + from + 8 * k, &v, sizeof v);
  }
}

}  // namespace ingot::kernels
