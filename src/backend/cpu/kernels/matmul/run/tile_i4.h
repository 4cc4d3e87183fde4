// Panels of groups of 4-bit numbers: tiles that decode in registers, for few rows of A, and decoders for tiles of another type.
#pragma once
#include "backend/cpu/kernels/matmul/run/tile.h"

namespace ingot::kernels {

// What these tiles have as their panel.
struct GroupPanel {
  const std::byte* data;
  Groups groups;
};

struct Int4Panels {
  TileOps::Tiles tiles;  // A is f32; k is a multiple of the group
  // Decodes `k` rows of B, whole groups, to f32, or to bf16 in pairs along K, rounded half to even. to_bf16: null if the instruction set has no bf16 dot products.
  using Decode = void (*)(std::byte* to, const GroupPanel&, int64_t k);
  Decode to_f32, to_bf16;
};
const Int4Panels& int4_panels();
extern const Int4Panels int4_panels_portable, int4_panels_avx2, int4_panels_avx512;
void int4_to_bf16_avx512(std::byte* to, const GroupPanel&, int64_t k);

}  // namespace ingot::kernels
