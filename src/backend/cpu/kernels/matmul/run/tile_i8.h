// Panels of int8, the numbers of an encoded weight: tiles that widen them in registers, for few rows of A, and what decodes a panel for the tiles of another type.
// Every int8 is a number of bf16 and f32, so no way of doing it rounds them.
#pragma once
#include "backend/cpu/kernels/matmul/run/tile.h"

namespace ingot::kernels {

struct Int8Panels {
  TileOps::Tiles tiles;                                          // A is f32
  // `rows` rows of a panel as a panel of f32, or of bf16 in pairs along K: behind an odd last row are zeros. As much from `next` on is asked for: it is
  // decoded next. to_bf16: null where the instruction set has no dot products of bf16.
  using Decode = void (*)(std::byte* to, const int8_t* from, int64_t rows, const int8_t* next);
  Decode to_f32, to_bf16;
};
const Int8Panels& int8_panels();
extern const Int8Panels int8_panels_portable, int8_panels_avx2, int8_panels_avx512;
void int8_to_bf16_avx512(std::byte* to, const int8_t* from, int64_t rows, const int8_t* next);

}  // namespace ingot::kernels
