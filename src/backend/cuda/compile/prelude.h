// The CUDA C++ before every generated kernel: element types in memory, vector access, scalar functions as ATen defines them, and
// reductions. It uses no header of the toolkit.
#pragma once
#include <string_view>

namespace ingot::backend::cuda {

std::string_view prelude();

}  // namespace ingot::backend::cuda
