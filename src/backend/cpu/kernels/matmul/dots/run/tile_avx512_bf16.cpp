#include <immintrin.h>

#include "backend/cpu/kernels/matmul/run/tile.h"

#include "backend/cpu/run/isa/avx512_bf16.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_avx512
#include "backend/cpu/kernels/matmul/run/tile.inc"

namespace {

// A pair of A times the pairs of a row of the panel. Products are exact and added one after the other.
struct Bf16Dots {
  using A = uint16_t;
  using B = uint16_t;
  static constexpr int depth = pair, products = pair, place_rows = matmul::tuning::max_rows_of_half_places;
  static void step(V& s, V a, V b) { s = (V)_mm512_dpbf16_ps((__m512)s, (__m512bh)a, (__m512bh)b); }
  template <int R>
  __attribute__((always_inline)) static void add_pairs(const A* a, int64_t lda, const B* b, Sums<R>& sum, size_t bytes) {
    Words y[VECTORS];
#pragma GCC unroll 4
    for (int j = 0; j < VECTORS; ++j) y[j] = Bf16::words(b, j);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      int32_t pair = 0;
      __builtin_memcpy(&pair, a + i * lda, bytes);
      const auto x = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 4
      for (int j = 0; j < VECTORS; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, (__m512bh)y[j]);
    }
  }
  template <int R>
  __attribute__((always_inline)) static void add_last(const A* a, int64_t lda, const B* b, Sums<R>& sum) {
    add_pairs<R>(a, lda, b, sum, 2);
  }
  template <int R>
  __attribute__((always_inline)) static void add(const A* a, int64_t lda, const B* b, Sums<R>& sum) {
    add_pairs<R>(a, lda, b, sum, 4);
  }
};

}  // namespace

using Rows = All<1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14>;
const TileOps::Tiles bf16_dots_avx512_bf16 = Rows::tiles<Bf16Dots, Bf16Dots>;

}  // namespace ingot::kernels
