// Arguments of a "matmul" step on CUDA: D = activation(alpha A B + residual + bias), by cuBLASLt.
//
// operands = A [batch.., M, K], B [batch.., K, N], then the bias (along N alone) and the residual (as D) in any order where there are such, then D
// [batch.., M, N] (written). Batch axes of A and B have the size of D's, stride 0 where they broadcast. Without batch axes B's columns may be apart, in several
// operands one behind another, each of which is multiplied by itself. sizes = M, N, K.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct MatmulCudaArgs {
  enum Activation : uint8_t { none, relu, gelu_tanh };
  uint8_t batch_rank = 0;
  Activation activation = none;
  uint8_t bias = 0, residual = 0;  // which operand behind B, 1 or 2; 0 = none
  double alpha = 1;
  bool tf32 = false;               // f32 operands may be rounded to 10 bits of mantissa
  uint8_t pieces = 1;              // of B, side by side along N
  size_t operand(uint8_t behind) const { return size_t{pieces} + behind; }
};
std::vector<std::byte> serialise(const MatmulCudaArgs&);
// Error (format) when the bytes are not such arguments.
MatmulCudaArgs parse_matmul_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
