// The operand of role `filled`: how many keys of a cache each sequence has.
#pragma once
#include "base/error.h"
#include "kernels/run/elements.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

// Error (format), naming `step`, unless it is one integer for each sequence.
inline void check_filled(const char* step, const TensorRef& filled, int64_t sequences) {
  if (filled.rank != 1 || filled.dims[0] != sequences || (filled.dtype != ir::DType::i32 && filled.dtype != ir::DType::i64))
    fail(Code::format, "{}: the number of keys is not one integer for each sequence", step);
}

// The keys of a sequence. Error (invalid_input) if there are not so many.
inline int64_t filled_keys(const TensorRef& filled, int64_t sequence, int64_t max_keys) {
  const std::byte* at = element(filled, sequence * filled.strides[0]);
  const int64_t n = filled.dtype == ir::DType::i32 ? *reinterpret_cast<const int32_t*>(at) : *reinterpret_cast<const int64_t*>(at);
  if (n < 0 || n > max_keys) fail(Code::invalid_input, "a sequence has {} keys in a cache for {}", n, max_keys);
  return n;
}

}  // namespace ingot::kernels
