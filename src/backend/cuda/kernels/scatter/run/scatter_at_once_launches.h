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
struct ScatterAxes {
  std::vector<ScatterAxis> axes;
  std::vector<int64_t> extent, step;  // of the result on the axis that index k chooses on
  bool wrap = false;
  size_t updates = 0, first_index = 0, out = 0;  // operands
};
// Of a step's operands; nullopt if nothing is scattered.
std::optional<ScatterAxes> axes_of_scatter(const Call&);
std::optional<ScatterAxes> axes_of_scatter_along(const Call&);

// For kernels that walk over updates as they lie, and find where in the result each belongs.
ScatterAtOnceParameters offsets_of(const ScatterAxes&);
// The operands of a launch with such parameters.
std::vector<CudaLaunch::Pointer> pointers_of(const ScatterAxes&);

struct ScatterAtOnce : ScatterAxes {
  ScatterWay way;
  std::string name;  // of the kernels
};

// nullopt if destinations are no lines that blocks can have, or sorting is faster.
std::optional<CudaLaunches> scatter_lines_cuda_launches(const ScatterAtOnce&, const CudaMachine&);
// nullopt if sorting is faster.
std::optional<CudaLaunches> scatter_at_once_cuda_launches(const ScatterAtOnce&, const CudaMachine&);

}  // namespace ingot::kernels
