// The numbers of Hopper's tiles that are not of one tile alone (tiles_args.h). H100 and H200 (docs/performance-notes/gemms_cuda.md); an estimate.
#pragma once
#include <cstddef>

namespace ingot::kernels::gemm::tiles_tuning {

// Bytes of a column of operands that are constant over rows, which are loaded before the kernel multiplies.
inline constexpr size_t max_column_bytes = 64;

}  // namespace ingot::kernels::gemm::tiles_tuning
