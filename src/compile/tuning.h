// Bounds of compile time that storage, passes and the schedule share. They decide nothing in the models of bench/: an EPYC compiles each in seconds (`python bench/compile_time.py`).
#pragma once
#include <cstddef>

namespace ingot::compile::bounds {

inline constexpr size_t max_views = 256;  // steps down from a value through views and maps: it is asked of every reduction

}  // namespace ingot::compile::bounds
