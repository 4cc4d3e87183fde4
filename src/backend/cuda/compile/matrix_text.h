// Matrix instructions as CUDA C++: what products and attention are made of. Tiles in shared memory are the same for all: rows of 64 halves (128 bytes),
// the 16-byte piece c of row r at place c ^ (r % 8), so that eight rows of a matrix lie in different banks; Hopper's instructions call it the 128-byte
// swizzle.
#pragma once
#include <string_view>

namespace ingot::backend::cuda {

// The machine's instructions, behind prelude(). On sm_90a they are those of groups of four warps too, and INGOT_WARPGROUPS is defined.
std::string_view matrix_instructions();
// What is written with them, behind them.
std::string_view matrix_text();

}  // namespace ingot::backend::cuda
