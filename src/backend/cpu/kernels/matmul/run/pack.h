// Packing of a GEMM's B in panels (for their layout see matmul.cpp).
#pragma once
#include "kernels/run/kernel.h"

namespace ingot::kernels {

bool half_or_float(ir::DType);
// Bytes in a row of a panel of this type, and rows of a panel for K rows of B.
int64_t row_bytes(ir::DType panel);
int64_t panel_rows(ir::DType panel, int64_t k);
// True if `packed` has room for the panels of a [K, N] matrix of this type.
bool holds_panels(const TensorRef& packed, ir::DType type, int64_t k, int64_t n);

// Packs panels [p0, p1) of bf16 in its own type; `to`: where the first begins.
void pack_pairs(const std::byte* data, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);
// Packs panels [p0, p1) as f32, or as doubles or integers of 64 bits; `to`: where the first begins. `row`, `column`: strides of the matrix in elements.
void pack_panels(const std::byte* data, ir::DType dtype, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);

// The same in the matrix's own type, of floats or int8.
void pack_own_type(const std::byte* data, ir::DType type, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to);

extern const RunKernel matmul_pack_kernel;

}  // namespace ingot::kernels
