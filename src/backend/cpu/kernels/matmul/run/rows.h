// Reads rows of a GEMM's A through a map (GemmMap), such as a convolution's windows, without copying all of them to memory.
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
  // `sizes`: extents of the map's indices, then offsets. Error (format) if they do not fit A or the GEMM's M and K.
  MappedRows(const GemmMap& map, int batch_rank, const TensorRef& a, std::span<const int64_t> sizes, int64_t m, int64_t k);

  int64_t batch(int axis) const { return batch_[static_cast<size_t>(axis)].extent; }
  // Copies elements [k0, k1) of a row as f32. `at`: the batch indices.
  void copy(const TensorRef& a, const int64_t* at, int64_t row, int64_t k0, int64_t k1, float* to) const;

 private:
  using Index = IndexMap::Index;
  using Position = IndexMap::Position;

  std::vector<Index> batch_, m_, k_;  // with neighbouring indices merged where they are one in memory; k_ is innermost last
  Position start_;
  int axes_ = 0;                      // number of A's axes with a border
  int64_t size_[IndexMap::max_axes] = {};
  int64_t reach_[IndexMap::max_axes] = {};  // extent of a row along them
};

}  // namespace ingot::kernels
