#include <immintrin.h>

#include <initializer_list>

#include "backend/cpu/kernels/matmul/short_matrix/run/tile_short.h"

#include "backend/cpu/run/isa/amx_bf16.inc"

namespace ingot::kernels {

namespace {

constexpr int64_t side = backend::cpu::hardware::matrix_rows, wide = ShortSteps::side;

// The operand of LDTILECFG. Registers 0 to 3 are the sums (upper left, upper right, lower left, lower right), 4 and 5 A's upper and lower rows, 6 and 7 the panel's left and right columns.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int64_t count, int64_t bytes) { row_bytes[tile] = static_cast<uint16_t>(bytes), rows[tile] = static_cast<uint8_t>(count); }
};

void configure(int64_t rows, int64_t terms) {
  Configuration c;
  const int64_t upper = rows < side ? rows : side, lower = rows - upper;
  for (int tile : {0, 1}) c.set(tile, upper, 64);
  c.set(4, upper, terms * 2);
  for (int tile : {6, 7}) c.set(tile, terms / 2, 64);
  if (lower > 0) {
    for (int tile : {2, 3}) c.set(tile, lower, 64);
    c.set(5, lower, terms * 2);
  }
  asm volatile("ldtilecfg %0" : : "m"(c));
}

__mmask32 first(int64_t count) { return static_cast<__mmask32>((uint64_t{1} << count) - 1); }

// Rows of A beside zeros, `row` elements each.
void copy_rows(const uint16_t* a, int64_t a_row, int64_t rows, int64_t k, uint16_t* to, int64_t row) {
  for (int64_t k0 = 0; k0 < row; k0 += wide) {
    const __mmask32 inside = first(k - k0 < wide ? (k > k0 ? k - k0 : 0) : wide);
    for (int64_t r = 0; r < rows; ++r) _mm512_storeu_si512(to + r * row + k0, _mm512_maskz_loadu_epi16(inside, a + r * a_row + k0));
  }
}

// A block of rows by the left half of a panel, or by all of it.
template <bool tall, bool both>
void multiply(const ShortSteps& s, const uint16_t* a, int64_t a_bytes, const std::byte* b, float* sums) {
  asm volatile("" : : : "memory");  // the compiler does not know what tiles read
  _tile_zero(0);
  if constexpr (both) _tile_zero(1);
  if constexpr (tall) _tile_zero(2);
  if constexpr (tall && both) _tile_zero(3);
  for (int64_t i = 0; i < s.steps; ++i, a += s.terms, b += s.terms / 2 * 2 * 64) {
    _tile_loadd(6, b, 128);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (tall) {
      _tile_loadd(5, reinterpret_cast<const std::byte*>(a) + side * a_bytes, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (both) {
      _tile_loadd(7, b + 64, 128);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (tall) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, wide * 4);
  if constexpr (both) _tile_stored(1, sums + side, wide * 4);
  if constexpr (tall) _tile_stored(2, sums + side * wide, wide * 4);
  if constexpr (tall && both) _tile_stored(3, sums + side * wide + side, wide * 4);
  asm volatile("" : : : "memory");
}

void store(const float* sums, int64_t rows, int64_t columns, uint16_t* to, int64_t to_row) {
  const __mmask32 inside = first(columns);
  for (int64_t r = 0; r < rows; ++r, sums += wide, to += to_row) {
    const __m512 left = _mm512_load_ps(sums), right = columns > side ? _mm512_load_ps(sums + side) : left;
    _mm512_mask_storeu_epi16(to, inside, (__m512i)_mm512_maskz_cvtne2ps_pbh(~__mmask32{0}, right, left));
  }
}

// Blocks of rows of even size; the last begins earlier where rows are left over, and computes some again.
template <bool tall>
void run_blocks(const ShortProduct& p, int64_t block, uint16_t* copy, float* sums) {
  const ShortSteps& s = p.steps;
  const int64_t copy_row = s.copied_row();
  for (int64_t r = 0; r < p.rows; r += block) {
    if (r > p.rows - block) r = p.rows - block;
    const uint16_t* a = p.a + r * p.a_row;
    int64_t a_bytes = p.a_row * 2;
    if (s.copies()) {
      copy_rows(a, p.a_row, block, s.k, copy, copy_row);
      a = copy, a_bytes = copy_row * 2;
    }
    const std::byte* panel = p.panels;
    for (int64_t n = 0; n < p.n; n += wide, panel += s.pairs() * 128) {
      const int64_t columns = p.n - n < wide ? p.n - n : wide;
      columns > side ? multiply<tall, true>(s, a, a_bytes, panel, sums) : multiply<tall, false>(s, a, a_bytes, panel, sums);
      store(sums, block, columns, p.to + r * p.to_row + n, p.to_row);
    }
  }
}

void run(const ShortProduct& p, uint16_t* copy, float* sums) {
  const int64_t blocks = (p.rows + wide - 1) / wide, block = (p.rows + blocks - 1) / blocks;
  configure(block, p.steps.terms);
  block > side ? run_blocks<true>(p, block, copy, sums) : run_blocks<false>(p, block, copy, sums);
}

void release() { _tile_release(); }

}  // namespace

const ShortMatrix short_matrix_amx{run, release};

}  // namespace ingot::kernels
