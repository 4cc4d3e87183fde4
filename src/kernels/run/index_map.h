// A tensor read through an affine map of indices, with zeros outside, for one set of sizes and in terms of memory offsets.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct IndexMap {
  static constexpr int max_axes = 8;  // axes of the tensor

  // One index: its stride in memory (elements), and along each axis of the tensor that has a border. Offsets may wrap:
  // partial sums of a valid offset may be far outside.
  struct Index {
    int64_t extent = 1;
    uint64_t step = 0;
    int64_t along[max_axes] = {};
  };
  struct Position {
    uint64_t offset = 0;
    int64_t along[max_axes] = {};
    void move(const Index& index, int64_t by, int axes) {
      offset += index.step * static_cast<uint64_t>(by);
      for (int b = 0; b < axes; ++b) along[b] += index.along[b] * by;
    }
  };

  std::vector<Index> indices;
  Position start;
  int axes = 0;  // number of the tensor's axes that the map may leave
  int64_t size[max_axes] = {};

  // True if the index moves along an axis that the map may leave.
  bool leaves(const Index& i) const {
    return std::any_of(i.along, i.along + axes, [](int64_t a) { return a != 0; });
  }
};

// `steps`: [rank of a][indices], not negative. `sizes`: the extent of each index, then the offset along each axis of a. Error
// (format), naming `step`, if they do not fit the tensor.
IndexMap resolve_index_map(const char* step, std::span<const int64_t> steps, const TensorRef& a, std::span<const int64_t> sizes);

// Merges neighbouring indices that are one index in memory; at least one is left. `axes`: IndexMap's.
std::vector<IndexMap::Index> collapsed(const std::vector<IndexMap::Index>& indices, int axes);

}  // namespace ingot::kernels
