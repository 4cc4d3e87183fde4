// Arguments of the matmul steps.
//
// "matmul": operands = A [batch.., M, K], B, then the body's loads and stores over the domain [batch.., M, N].
//   B is [batch.., K, N], strided; or, packed, a 1-d f32 view written by "matmul_pack". Batch axes of A and B have the size of the
//   domain's, stride 0 where they broadcast. sizes = M, N, K, then the body's. The body's accumulator is the product.
// "matmul_pack": operands = B [K, N] strided (read), packed f32 (written). sizes = K, N. No constants.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct MatmulArgs {
  bool packed = false;
  uint8_t batch_rank = 0;
  std::span<const std::byte> body;  // fused byte code
  bool in_order = false;            // a result's bits do not depend on M
};
std::vector<std::byte> serialise(const MatmulArgs&);
// Error (format) when the bytes are not such arguments; `body` points into them.
MatmulArgs parse_matmul(std::span<const std::byte>);

// Bytes of a packed operand: room for any panel width up to 32, and a tail that prefetching may touch.
inline constexpr int64_t packed_pad = 4096;

}  // namespace ingot::kernels
