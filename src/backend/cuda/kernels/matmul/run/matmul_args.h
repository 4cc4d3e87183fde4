// Constants of a "matmul" step on CUDA: D = activation(alpha A B + residual + bias), by cuBLASLt.
//
// Operands: A [batch.., M, K], B [batch.., K, N], then the optional bias (along N) and residual (like D) in any order, then D [batch.., M, N]
// (written). Batch axes of A and B have D's size, with stride 0 where they broadcast. Without batch axes, B may be several operands side by side
// along N; each is a GEMM of its own. Sizes: M, N, K.
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
  uint8_t bias = 0, residual = 0;  // operand 1 or 2 after B; 0 = none
  double alpha = 1;
  bool tf32 = false;               // f32 operands may be rounded to TF32
  uint8_t parts_of_b = 1;              // of B, side by side along N
  size_t operand(uint8_t behind) const { return size_t{parts_of_b} + behind; }
};
std::vector<std::byte> serialise(const MatmulCudaArgs&);
// Error (format) for invalid bytes.
MatmulCudaArgs parse_matmul_cuda(std::span<const std::byte>);

}  // namespace ingot::kernels
