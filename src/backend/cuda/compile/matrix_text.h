// Matrix instructions as CUDA C++, the building blocks of GEMMs and attention. All tiles in shared memory have one layout: rows of 64
// halves (128 bytes), with the 16-byte vector c of row r at place c ^ (r % 8), so that eight rows of a matrix are in different banks.
// Hopper's instructions call it the 128-byte swizzle.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cuda {

// The machine's instructions; comes after prelude(). On sm_90a they include those of groups of four warps, and INGOT_WARPGROUPS is defined.
std::string_view matrix_instructions();
// The functions built on them; comes after them.
std::string_view matrix_text();
// Both, and between them the products of groups of four warps for elements of `type`, for B contiguous along K (true) or along its columns (false), as listed.
// They are long, and NVRTC reads one text at a time, so a unit names only those that it uses.
std::vector<CodeUnit::Library> matrix_libraries(ir::DType type, std::initializer_list<bool> along_k);
// True if the unit has such products.
bool has_group_products(const CodeUnit&);

}  // namespace ingot::backend::cuda
