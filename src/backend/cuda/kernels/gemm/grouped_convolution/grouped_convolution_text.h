// A convolution in groups, or of few columns in all, as CUDA C++: a GEMM through a map, where a thread sums a few adjacent outputs of a line for some columns of its group.
#pragma once
#include "backend/cuda/kernels/windows.h"

namespace ingot::backend::cuda {

// All sizes must be known.
// How many threads share each sum, where so many threads have one each and channels are neighbours in so many vectors of 16 bytes: few threads leave a GPU idle.
int lanes_of_sum(int64_t vectors, int64_t threads);
std::optional<WindowObstacle> grouped_convolution_obstacle(const Gemm&, const FusedBody&, const std::vector<StridedLayout>& body_layouts);
// A pure function. The GEMM must have no obstacle. `matrices`: the target has matrix instructions for A's type, by which a warp multiplies sixteen outputs of a line by all
// columns of a group, if channels and columns are multiples of what an instruction takes.
EmittedStep emit_grouped_convolution(const Gemm&, const FusedBody&, const std::vector<StridedLayout>& body_layouts, bool matrices, const std::vector<int>& variants = {0, 1});

}  // namespace ingot::backend::cuda
