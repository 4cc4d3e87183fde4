// What torch records about a tensor, and a weight's bytes.
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

// Fills data, bytes, keep and order of a weight with constant sizes. Dense bytes stay where they are, in whatever order; others are copied once into
// owned memory, row-major. `storage` begins at element 0 of the storage. Error (format) when the strides reach outside it.
void find_bytes(ir::Weight&, const TensorMeta& meta, std::span<const std::byte> storage, std::shared_ptr<const void> keep);
// Copies bytes that lie in an order.
void make_row_major(ir::Weight&, const ir::Type&);

// Axes from outermost to innermost in memory; empty when the tensor is row-major, or has gaps or repeats for any of its sizes.
std::vector<int64_t> memory_order(const TensorMeta& meta);
// The same of a tensor that may have gaps: what torch computes from it has this order.
std::vector<int64_t> order_with_gaps(const TensorMeta& meta, std::span<const ir::Symbol> symbols);

}  // namespace ingot::capture
