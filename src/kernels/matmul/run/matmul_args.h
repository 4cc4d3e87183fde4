// Arguments of the matmul steps.
//
// "matmul": operands = A [batch.., M, K], B, then the body's loads and stores over the domain [batch.., M, N].
//   B is [batch.., K, N], strided; or, packed, a 1-d view written by "matmul_pack". Batch axes of A and B have the size of the
//   domain's, stride 0 where they broadcast. sizes = M, N, K, then the body's. The body's accumulator is the product.
//   With a map A is any tensor that the product reads through it (the windows of a convolution, padding included), and sizes are M, N, K, the extents of
//   the map's indices (batch.., m.., k..; M and K are the products of theirs), the offset along each axis of A, then the body's.
//   A packed B of i8 is the numbers of an encoded weight; their scale is the body's.
// "matmul_pack": operands = B [K, N] strided (read), packed (written): of B's type, or f32. sizes = K, N. No constants.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/encoding.h"

namespace ingot::kernels {

// Element (batch.., m.., k..) of the product's operand is A's at offset[j] + sum over i of steps[j][i] * index[i] along each axis j of A, and 0
// outside of A.
struct GemmMap {
  static constexpr int max_rank = 8;  // of A, and of m and k
  uint8_t rank = 0, m_rank = 0, k_rank = 0;
  std::vector<int64_t> steps;         // [rank][batch + m + k], 0 or more
};

struct MatmulArgs {
  bool packed = false;
  uint8_t batch_rank = 0;
  std::span<const std::byte> body;  // fused byte code
  bool in_order = false;            // a result's bits do not depend on M
  std::optional<GemmMap> map = std::nullopt;
};
std::vector<std::byte> serialise(const MatmulArgs&);
// Error (format) when the bytes are not such arguments; `body` points into them.
MatmulArgs parse_matmul(std::span<const std::byte>);

// Rows of B that lie side by side, column by column, in a row of a packed operand of this type: pairs of bf16 are what dot products read.
constexpr int64_t panel_depth(ir::DType type) { return type == ir::DType::bf16 ? 2 : 1; }
// A packed operand of this type: room for any panel width up to 32, and a tail that prefetching may touch.
constexpr ir::Encoding panels_of(ir::DType type) { return {.storage = type, .panels = ir::Encoding::Panels{32, panel_depth(type), 4096}}; }

}  // namespace ingot::kernels
