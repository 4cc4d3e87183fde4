// Rows of a product's left operand that are read through a map (GemmMap): the windows of a convolution, without a copy of them all in memory.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/index_map.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

class MappedRows {
 public:
  // `sizes`: extents of the map's indices, then offsets. Error (format) when they do not fit A or the product's M and K.
  MappedRows(const GemmMap& map, int batch_rank, const TensorRef& a, std::span<const int64_t> sizes, int64_t m, int64_t k);

  int64_t batch(int axis) const { return batch_[static_cast<size_t>(axis)].extent; }
  // Elements [k0, k1) of a row as f32. `at`: the batch indices.
  void copy(const TensorRef& a, const int64_t* at, int64_t row, int64_t k0, int64_t k1, float* to) const;

 private:
  using Index = IndexMap::Index;
  using Position = IndexMap::Position;

  std::vector<Index> batch_, m_, k_;  // neighbours that are one index in memory are one; the last of k_ is the innermost
  Position start_;
  int axes_ = 0;                      // of A that can be left
  int64_t size_[IndexMap::most] = {};
  int64_t reach_[IndexMap::most] = {};  // of a row along them
};

}  // namespace ingot::kernels
