#pragma once
#include <string_view>

namespace ingot::backend::cuda {

// The kernel for one row, and how it loads B.
std::string_view gemv_text();

}  // namespace ingot::backend::cuda
