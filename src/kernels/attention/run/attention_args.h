// Arguments of the "attention" step.
//
// operands = Q [batch.., S, D], K [batch.., T, D], V [batch.., T, E], the mask body's loads over the domain [batch.., S, T],
//   out [batch.., S, E] (written). Batch axes that broadcast (grouped heads) have stride 0.
// sizes = S, T, D, E, then the mask body's. The mask body's accumulator is the scaled score; its single store value is the
//   masked score. Scores are f32, of f64 operands f64 (there is no memory behind that store).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct AttentionArgs {
  double scale = 1;
  bool causal = false;                // key t is seen by query s only if t <= s
  uint8_t batch_rank = 0;
  std::span<const std::byte> mask;    // fused byte code; empty = no mask
  bool in_order = false;              // a result's bits do not depend on the batch
};
std::vector<std::byte> serialise(const AttentionArgs&);
AttentionArgs parse_attention(std::span<const std::byte>);

}  // namespace ingot::kernels
