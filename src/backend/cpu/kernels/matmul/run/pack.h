// Packing of a GEMM's B in panels (for their layout see matmul.cpp).
#pragma once
#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

bool half_or_float(ir::DType);
// Bytes in a row of a panel of this type, the rows of B in it, and rows of a panel for K rows of B. A row of a panel of groups is a group.
int64_t row_bytes(ir::DType panel, const Groups& groups = {});
inline int64_t row_depth(ir::DType panel, const Groups& groups = {}) { return groups.size > 0 ? groups.size : panel_depth(panel); }
int64_t panel_rows(ir::DType panel, int64_t k, const Groups& groups = {});
// True if `packed` has room for the panels of a [K, N] matrix of this type.
bool holds_panels(const TensorRef& packed, ir::DType type, int64_t k, int64_t n, const Groups& groups = {});

// Packs panels [p0, p1) of bf16 in its own type; `to`: where the first begins.
void pack_pairs(const std::byte* data, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);
// Packs panels [p0, p1) as f32, or as doubles or integers of 64 bits; `to`: where the first begins. `row`, `column`: strides of the matrix in elements.
void pack_panels(const std::byte* data, ir::DType dtype, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);

// The same in the matrix's own type, of floats or int8.
void pack_own_type(const std::byte* data, ir::DType type, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);

extern const RunKernel matmul_pack_kernel, matmul_pack_groups_kernel;

}  // namespace ingot::kernels
