// Strided tensors of the caller as dense memory.
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

// Dense, its axes in that order.
bool lies_in(Order, const HostTensor&);
// It has elements, and its pointer is null.
bool missing_data(const HostTensor&);
// Two of its elements may be one place: an axis steps no further than those inside of it reach.
bool may_overlap_itself(const HostTensor&);
size_t bytes_of(const HostTensor&);
// A value of a weight, of these strides (null: row-major).
HostTensor value_of(const plan::Weight&, const void* data, const int64_t* strides);
// Between a strided tensor and memory that is dense in that order, both of the host: `out` of the tensor, or into it.
void copy_strided(const HostTensor& t, Order, std::byte* plain, bool out);
// Why memory of a GPU that does not lie so is not taken.
Error lies_otherwise(std::string_view what, Order);
std::string shape_text(const HostTensor&);  // "[2, 3]"

}  // namespace ingot::runtime
