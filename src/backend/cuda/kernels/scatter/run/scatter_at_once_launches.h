// The launches of a scatter that combines updates in any order.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {

// An axis of the updates: strides of the updates, of the indices, and of the result if it has the axis too.
struct ScatterAxis {
  int64_t size, updates;
  std::array<int64_t, scatter_cuda_tuning::max_indices> index{};
  std::optional<int64_t> out = std::nullopt;
};
struct ScatterAtOnce {
  ScatterWay way;
  std::string name;  // of the kernels
  std::vector<ScatterAxis> axes;
  std::vector<int64_t> extent, step;  // of the result on the axis that index k chooses on
  bool wrap;
  size_t updates, first_index, out;  // operands
};

// nullopt if sorting is faster.
std::optional<CudaLaunches> scatter_at_once_cuda_launches(const ScatterAtOnce&, const CudaMachine&);

}  // namespace ingot::kernels
