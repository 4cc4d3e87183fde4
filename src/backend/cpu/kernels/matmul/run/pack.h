// B of a product in panels (matmul.cpp says how they lie).
#pragma once
#include "kernels/run/kernel.h"

namespace ingot::kernels {

bool half_or_float(ir::DType);
// A row of a panel of this type, and how many rows a panel of K rows of B has.
int64_t row_bytes(ir::DType panel);
int64_t panel_rows(ir::DType panel, int64_t k);
// True if `packed` is room for the panels of a [K, N] matrix of this type.
bool holds_panels(const TensorRef& packed, ir::DType type, int64_t k, int64_t n);

// Panels [p0, p1) of a matrix whose rows and columns are so many elements apart, as f32.
void pack_panels(const std::byte* data, ir::DType dtype, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, float* to);

extern const RunKernel matmul_pack_kernel;

}  // namespace ingot::kernels
