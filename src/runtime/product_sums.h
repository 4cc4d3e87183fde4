// Sums of matrices and products on a GPU: weights with adapters added.
#pragma once
#include <span>

#include "backend/run/device.h"

namespace ingot::runtime {

// to = base + up down, in row-major matrices of one floating-point type: up [m, k], down [k, n], base and to [m, n].
struct ProductSum {
  std::byte *up, *down, *base, *to;
};

// Reads each base and writes each sum once. Sums of half precision are in float32, those of float32 in TF32 or better. Returns before the work in this stream is done,
// unless it needs scratch memory. Error (unsupported) if the backend has no such kernel.
void sum_products(const backend::Backend& backend, ir::DType dtype, int64_t m, int64_t n, int64_t k, std::span<const ProductSum> sums, void* stream);

}  // namespace ingot::runtime
