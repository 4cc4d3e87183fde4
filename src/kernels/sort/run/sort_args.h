// Constants of the "sort" step: the first k elements of each sorted line, and their positions. Stable; NaN is the largest number.
//
// Operands: in, values (written), indices (i64, written). values and indices have in's dims, but k <= in's size on the
// axis: equal for sort, less for topk. They share no memory with in. No sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct SortArgs {
  uint8_t axis = 0;
  bool descending = false;  // topk's `largest`
};
std::vector<std::byte> serialise(const SortArgs&);
SortArgs parse_sort(std::span<const std::byte>);

}  // namespace ingot::kernels
