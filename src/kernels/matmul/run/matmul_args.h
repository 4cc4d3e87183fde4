// Constants of the matmul steps.
//
// "matmul". Operands: A [batch.., M, K], B, then the body's loads and stores over the domain [batch.., M, N]. B is [batch.., K, N], strided, or, if packed, a
// 1-d view written by "matmul_pack". Batch axes of A and B have the domain's size, with stride 0 where they broadcast. Sizes: M, N, K, then the body's. The
// body's accumulator is the product. With a map, A is any tensor, read through it (a convolution's windows, padding included), and sizes are M, N, K, the
// extents of the map's indices (batch.., m.., k..; M and K are the products of theirs), the offset along each axis of A, then the body's. A packed B of i8
// holds the integers of an encoded weight; the body applies their scale.
//
// "matmul_pack". Operands: B [K, N] strided (read), packed (written), of B's type or f32. Sizes: K, N. No constants.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ir/encoding.h"

namespace ingot::kernels {

// Element (batch.., m.., k..) of the GEMM's operand is A's element at offset[j] + sum over i of steps[j][i] * index[i] along each axis j, and 0 outside A.
struct GemmMap {
  static constexpr int max_rank = 8;  // of A, and of m and k
  uint8_t rank = 0, m_rank = 0, k_rank = 0;
  std::vector<int64_t> steps;         // [rank][batch + m + k], not negative
};

struct MatmulArgs {
  bool packed = false;
  uint8_t batch_rank = 0;
  std::span<const std::byte> body;  // fused byte code
  bool in_order = false;            // results do not depend on M, bit by bit
  std::optional<GemmMap> map = std::nullopt;
};
std::vector<std::byte> serialise(const MatmulArgs&);
// Error (format) for invalid bytes; `body` points into them.
MatmulArgs parse_matmul(std::span<const std::byte>);

// Rows of B that are interleaved in a row of a packed operand of this type: dot products read bf16 in pairs.
constexpr int64_t panel_depth(ir::DType type) { return type == ir::DType::bf16 ? 2 : 1; }
// A packed operand of this type: room for any panel width up to 32, and for prefetches past the end.
constexpr ir::Encoding panels_of(ir::DType type) { return {.storage = type, .panels = ir::Encoding::Panels{32, panel_depth(type), 4096}}; }

}  // namespace ingot::kernels
