// The CUDA C++ in front of every generated kernel: element types in memory, vector access, scalar functions with ATen's meaning,
// reductions. Self-contained: no toolkit header.
#pragma once
#include <string_view>

namespace ingot::backend::cuda {

std::string_view prelude();

}  // namespace ingot::backend::cuda
