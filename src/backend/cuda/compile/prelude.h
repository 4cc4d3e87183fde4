// The CUDA C++ before every generated kernel: element types in memory, vector access, scalar functions as ATen defines them, and
// reductions. It uses no header of the toolkit.
#pragma once
#include <string>
#include <string_view>

namespace ingot::backend::cuda {

std::string_view prelude();
// The same, followed by `kernels`. What few of them call, and NVRTC would read for 7 ms, is in it only if they call it.
std::string with_prelude(std::string_view kernels);

}  // namespace ingot::backend::cuda
