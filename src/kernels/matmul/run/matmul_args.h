// Constants of the matmul steps.
//
// "matmul". Operands: A [batch.., M, K], B, then the body's loads and stores over the domain [batch.., M, N]. B is [batch.., K, N], strided, or, if packed, a
// 1-d view written by "matmul_pack". Batch axes of A and B have the domain's size, with stride 0 where they broadcast. Sizes: M, N, K, then the body's. The
// body's accumulator is the product. With a map, A is any tensor, read through it (a convolution's windows, padding included), and sizes are M, N, K, the
// extents of the map's indices (batch.., m.., k..; M and K are the products of theirs), the offset along each axis of A, then the body's. A packed B of i8
// holds the integers of an encoded weight; the body applies their scale. With groups it holds numbers of 4 bits with the scales and zeros of their groups.
//
// "matmul_pack". Operands: B [K, N] strided (read), packed (written), of B's type or f32. Sizes: K, N. No constants.
//
// "matmul_pack_groups". Operands: numbers [K, N] of i8 in -8 .. 7, scales [K / group, N] of bf16, f16 or f32, maybe zeros [K / group, N] of i8 (all strided, read),
// packed (written, i8). Sizes: K, N. No constants.
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

// Numbers of 4 bits, of which `size` along K share a scale, and maybe a zero: an element is (number - zero) * scale.
struct Groups {
  uint8_t size = 0;         // 32, 64 or 128; 0: there are none
  uint8_t scale_bytes = 4;  // of a scale in a panel: 2 for bf16, 4 for f32
  bool zero = false;        // an i8 for each group
  bool operator==(const Groups&) const = default;
  constexpr bool valid() const { return (size == 32 || size == 64 || size == 128) && (scale_bytes == 2 || scale_bytes == 4); }
  constexpr int64_t block_bytes() const { return scale_bytes + (zero ? 1 : 0); }
};

struct MatmulArgs {
  bool packed = false;
  uint8_t batch_rank = 0;
  std::span<const std::byte> body;  // fused byte code
  bool in_order = false;            // results do not depend on M, bit by bit
  std::optional<GemmMap> map = std::nullopt;
  Groups groups = {};               // of a packed B
};
std::vector<std::byte> serialise(const MatmulArgs&);
// Error (format) for invalid bytes; `body` points into them.
MatmulArgs parse_matmul(std::span<const std::byte>);

// Rows of B that are interleaved in a row of a packed operand of this type: dot products read bf16 in pairs.
constexpr int64_t panel_depth(ir::DType type) { return type == ir::DType::bf16 ? 2 : 1; }
// A packed operand of this type: room for any panel width up to 32, and for prefetches past the end.
constexpr ir::Encoding panels_of(ir::DType type) { return {.storage = type, .panels = ir::Encoding::Panels{32, panel_depth(type), 4096}}; }
// Panels of groups: for each group the scales of the panel's columns, their zeros, then words of 32 bits, [group / 8][columns]: word w of a column holds its numbers
// 8 w .. 8 w + 7 of the group, the first in the lowest bits.
constexpr ir::Encoding panels_of(const Groups& groups) {
  return {.storage = ir::DType::i8,
          .bits = 4,
          .block = ir::Encoding::Block{groups.size, 1},
          .zero = groups.zero,
          .panels = ir::Encoding::Panels{32, groups.size, 4096, groups.block_bytes()}};
}
// The groups of such panels; none: they are others.
constexpr Groups groups_of(const ir::Encoding& e) {
  if (e.bits != 4 || !e.panels || !e.block || e.panels->depth != e.block->k) return {};
  return {static_cast<uint8_t>(e.block->k), static_cast<uint8_t>(e.panels->of_block - (e.zero ? 1 : 0)), e.zero};
}

}  // namespace ingot::kernels
