// Arguments of the "sort" step: the first k of each line in order, with where they stood. Stable; NaN is the largest number.
//
// operands = in, values (written), indices (i64, written). values and indices have in's dims, but k <= in's size on the axis: all of it
// is sort, less is topk. sizes = none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct SortArgs {
  uint8_t axis = 0;
  bool descending = false;  // topk: `largest`
};
std::vector<std::byte> serialise(const SortArgs&);
SortArgs parse_sort(std::span<const std::byte>);

}  // namespace ingot::kernels
