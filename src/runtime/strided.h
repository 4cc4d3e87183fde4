// Copies between the caller's strided tensors and dense memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "runtime/program.h"

namespace ingot::runtime {

// Axes from outermost to innermost in memory; empty = row-major.
using Order = std::span<const uint8_t>;

// True if the tensor is dense with its axes in this order.
bool is_dense_in(Order, const HostTensor&);
// True if it has elements but its pointer is null.
bool missing_data(const HostTensor&);
// True if two of its elements may share an address: some axis has a stride no longer than the extent of the axes inside it.
bool may_overlap_itself(const HostTensor&);
size_t bytes_of(const HostTensor&);
// The value of a weight with these strides (null: row-major).
HostTensor value_of(const plan::Weight&, const void* data, const int64_t* strides);
// Copies between a strided host tensor and host memory that is dense in this order. `out`: from the tensor; otherwise into it.
void copy_strided(const HostTensor& t, Order, std::byte* plain, bool out);
// The error for a GPU tensor that is not in this order.
Error wrong_order(std::string_view what, Order);
std::string shape_text(const HostTensor&);  // "[2, 3]"

}  // namespace ingot::runtime
