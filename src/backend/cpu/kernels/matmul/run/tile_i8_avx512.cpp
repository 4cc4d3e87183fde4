#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile_i4.h"
#include "backend/cpu/kernels/matmul/run/tile_i8.h"

#include "backend/cpu/run/isa/avx512.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_avx512
#include "backend/cpu/kernels/matmul/run/tile.inc"
#include "backend/cpu/kernels/matmul/run/tile_i8.inc"

#include "backend/cpu/kernels/matmul/run/tile_i4.inc"

// The upper half of a float of few digits is the number in bf16.
void int8_to_bf16_avx512(std::byte* to, const int8_t* from, int64_t rows, const int8_t* next) {
  constexpr int row = VECTORS * LANES;
  auto* out = reinterpret_cast<uint16_t*>(to);
  for (int64_t i = 0; i < rows; i += 2, from += 2 * row, next += 2 * row, out += 2 * row) {
    __builtin_prefetch(next, 0, 2);
    for (int j = 0; j < VECTORS; ++j) {
      const Words first = (Words)I8::widen(from + j * LANES) >> 16, second = i + 1 < rows ? (Words)I8::widen(from + row + j * LANES) : Words{};
      *reinterpret_cast<Words*>(out + j * LANES * 2) = first | second;
    }
  }
}

namespace {

// A bf16 in the upper half, rounded half to even; a NaN stays one.
inline Words rounded(V x) { return ((Words)x + 0x7fff + ((Words)x >> 16 & 1)) | ((Words)(x != x) & 0x7fc00000); }

}  // namespace

void int4_to_bf16_avx512(std::byte* to, const GroupPanel& panel, int64_t k) {
  const int64_t bytes = VECTORS * LANES * (panel.groups.block_bytes() + panel.groups.size / 2);
  auto* out = reinterpret_cast<Words*>(to);
  for (int64_t kk = 0; kk < k; kk += panel.groups.size) {
    const Group group(panel.data + kk / panel.groups.size * bytes, panel.groups);
    for (int64_t w = 0; w < panel.groups.size / numbers_of_word; ++w) {
#pragma GCC unroll 4
      for (int i = 0; i < numbers_of_word; i += 2) {
        for (int j = 0; j < VECTORS; ++j) *out++ = rounded(group.element(w, i, j)) >> 16 | (rounded(group.element(w, i + 1, j)) & 0xffff0000);
      }
    }
  }
}

using Rows = All<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const Int8Panels int8_panels_avx512{Rows::tiles<I8>, to_f32, nullptr};
const Int4Panels int4_panels_avx512{GroupTiles<1, 2, 3, 4, 5, 6>::tiles, groups_to_f32, nullptr};

}  // namespace ingot::kernels
