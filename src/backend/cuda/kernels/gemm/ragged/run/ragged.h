// What implementations of products of experts share.
#pragma once
#include "backend/cuda/kernels/gemm/run/gemm_call.h"

namespace ingot::kernels {

// Error (format) unless these are arguments of a product of experts, without others of the implementation.
void require_experts(std::span<const std::byte> own, const GemmArgs&);
// True if all strides are multiples of 16 bytes.
bool is_aligned(const GemmCall&);
// The launch of warps that copy tiles themselves. Not `vectors`: operands may be at any address.
CudaLaunches ragged_by_warps(const GemmCall&, bool vectors);

}  // namespace ingot::kernels
