// Panels of int8, for encoded weights: tiles that widen in registers, for few rows of A, and decoders for tiles of another type. bf16 and f32
// represent every int8 exactly, so no variant rounds.
#pragma once
#include "backend/cpu/kernels/matmul/run/tile.h"

namespace ingot::kernels {

struct Int8Panels {
  TileOps::Tiles tiles;                                          // A is f32
  // Decodes `rows` rows of a panel to f32, or to bf16 in pairs along K, with zeros after an odd last row. Prefetches as much from `next` on, which is decoded
  // next. to_bf16: null if the instruction set has no bf16 dot products.
  using Decode = void (*)(std::byte* to, const int8_t* from, int64_t rows, const int8_t* next);
  Decode to_f32, to_bf16;
};
const Int8Panels& int8_panels();
extern const Int8Panels int8_panels_portable, int8_panels_avx2, int8_panels_avx512;
void int8_to_bf16_avx512(std::byte* to, const int8_t* from, int64_t rows, const int8_t* next);

}  // namespace ingot::kernels
