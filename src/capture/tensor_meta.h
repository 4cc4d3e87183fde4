// What torch records about a tensor, and a weight's bytes made row-major.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "capture/json.h"
#include "ir/graph.h"

namespace ingot::capture {

struct TensorMeta {
  ir::Type type;
  ir::Dims strides;      // in elements
  ir::Dim offset = 0;    // of the first element in the storage, in elements
};

// torch's number of a dtype; Error (unsupported) naming it and its owner when ingot has no such type.
ir::DType dtype_of(int64_t code, std::string_view owner);

// The bytes of a weight with constant sizes. Row-major ones stay where they are; others are copied once into owned
// memory. `storage` begins at element 0 of the storage. Error (format) when the strides reach outside it.
struct WeightBytes {
  const std::byte* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> keep;
};
WeightBytes weight_bytes(std::string_view name, const TensorMeta& meta, std::span<const std::byte> storage, std::shared_ptr<const void> keep);

// Axes from outermost to innermost in memory; empty when the tensor is row-major, or has gaps or repeats for any of its sizes.
std::vector<int64_t> memory_order(const TensorMeta& meta);

}  // namespace ingot::capture
