// Constants of the scatter steps. Both write into `out`, which already holds the base: a copy made by a fused step, or the base itself if no later step reads
// it. Updates are applied in row-major order, so that repeated indices have a defined result.
//
// "scatter":       operands = updates, index_0.., out (written). Indices are i64, one per scattered axis of out; each is a view with
//                  the same dims I (stride 0 where it broadcasts). updates' dims are out's without `axes`, I inserted at `position`.
// "scatter_along": operands = index (i64), updates, out (written), of one rank; updates has index's dims (a view of its corner).
// sizes = none.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct ScatterArgs {
  enum class Kind : uint8_t { set, add, mul, min, max } kind = Kind::set;
  bool wrap = false;          // negative indices count from the end
  uint8_t position = 0;       // of the index dims in updates; unused by scatter_along
  std::vector<uint8_t> axes;  // of out, ascending or in the order of the index operands; scatter_along: exactly one
};
std::vector<std::byte> serialise(const ScatterArgs&);
ScatterArgs parse_scatter(std::span<const std::byte>);

}  // namespace ingot::kernels
