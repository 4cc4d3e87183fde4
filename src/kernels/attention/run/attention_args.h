// Constants of the "attention" step.
//
// Operands: Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the loads of the mask's body over the domain [batch.., S, T], `filled` (kernels/run/role.h) if it
// has that, out [batch.., S, E] (written). Batch axes that broadcast (grouped heads) have stride 0. Sizes: S, T, D, E, then the mask body's. The body's accumulator is the scaled score,
// and the value of its one store is the masked score; that store has no memory. Scores are f32, or f64 for f64 operands.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct AttentionArgs {
  double scale = 1;
  bool causal = false;  // query s sees key t only if t <= s
  uint8_t batch_rank = 0;
  std::span<const std::byte> mask;  // fused byte code; empty = no mask
  bool in_order = false;  // results do not depend on the batch, bit by bit
  bool filled = false;  // the first batch axis is that of sequences, and each has a number of keys; causal queries are those of the last ones
};
std::vector<std::byte> serialise(const AttentionArgs&);
AttentionArgs parse_attention(std::span<const std::byte>);

}  // namespace ingot::kernels
