#include <immintrin.h>

#include <utility>

#include "backend/cpu/kernels/matmul/run/tile.h"

#include "backend/cpu/run/isa/amx_bf16.inc"

namespace ingot::kernels {

#define VECTORS 2
#define ENDS tile_ends_avx512
#include "backend/cpu/kernels/matmul/run/tile.inc"

namespace {

// A tile register has 16 rows of 64 bytes: for A 16 rows by 32 numbers, for the panel 16 rows (32 of B) by 16 columns, for the sums 16
// rows by 16 columns. Registers 0 to 3 are the sums (upper left, upper right, lower left, lower right), 4 and 5 A's upper and lower
// rows, 6 and 7 the panel's left and right columns.
constexpr int side = backend::cpu::hardware::matrix_rows, step = backend::cpu::hardware::matrix_row_bytes / static_cast<int>(sizeof(uint16_t));

// The operand of LDTILECFG.
struct alignas(64) Configuration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  void set(int tile, int count) { row_bytes[tile] = 64, rows[tile] = static_cast<uint8_t>(count); }
};

// The number of rows for which this thread's registers are configured; 0: released.
thread_local int configured = 0;

void configure(int rows) {
  Configuration c;
  const int upper = rows < side ? rows : side;
  for (int tile : {0, 1, 4}) c.set(tile, upper);
  for (int tile : {6, 7}) c.set(tile, side);
  for (int tile : {2, 3, 5}) {
    if (rows > side) c.set(tile, rows - side);
  }
  asm volatile("ldtilecfg %0" : : "m"(c));
  configured = rows;
}

// While tiles are in use, a context switch saves 8 KB more.
void release() {
  if (configured != 0) _tile_release();
  configured = 0;
}

// Adds A[:, 0:32] * B[0:32, :] to the sums.
template <bool tall>
__attribute__((always_inline)) inline void multiply(const uint16_t* a, int64_t a_bytes, const uint16_t* b) {
  _tile_loadd(6, b, 128);
  _tile_loadd(4, a, a_bytes);
  _tile_dpbf16ps(0, 4, 6);
  _tile_loadd(7, b + 32, 128);
  _tile_dpbf16ps(1, 4, 7);
  if constexpr (tall) {
    _tile_loadd(5, reinterpret_cast<const std::byte*>(a) + side * a_bytes, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

template <bool tall>
void product(int rows, const uint16_t* a, int64_t lda, const uint16_t* b, int64_t k, float* c, int64_t ldc, bool first, const TileEnd* end, Ahead ahead) {
  constexpr int row = step + step, far = matmul::tuning::far_half;  // numbers in a row of the panel; prefetch distance in bytes
  if (configured != rows) configure(rows);
  const int64_t a_bytes = lda * 2, c_bytes = ldc * 4;
  asm volatile("" : : : "memory");  // the compiler does not know what tiles read
  if (first) {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (tall) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, c, c_bytes);
    _tile_loadd(1, c + side, c_bytes);
    if constexpr (tall) {
      _tile_loadd(2, c + side * ldc, c_bytes);
      _tile_loadd(3, c + side * ldc + side, c_bytes);
    }
  }
  int64_t left = k;
  for (; left >= step; left -= step, a += step, b += side * row) {
    if (ahead.next != nullptr) {
      for (int line = 0; line < 4 * ahead.lines; ++line) __builtin_prefetch(ahead.next + 64 * line, 0, 1);
      ahead.next += 4 * 64 * ahead.lines;
    } else {
      for (int line = 0; line < side * row * 2 / 64; ++line) __builtin_prefetch(reinterpret_cast<const std::byte*>(b) + far + 64 * line);
    }
    multiply<tall>(a, a_bytes, b);
  }
  if (left > 0) {  // the same, padded with zeros
    alignas(64) uint16_t last_a[2 * side * step] = {}, last_b[side * row] = {};
    for (int r = 0; r < rows; ++r) __builtin_memcpy(last_a + r * step, a + r * lda, static_cast<size_t>(left) * 2);
    __builtin_memcpy(last_b, b, static_cast<size_t>((left + 1) / 2) * row * 2);
    asm volatile("" : : : "memory");
    multiply<tall>(last_a, step * 2, last_b);
  }
  _tile_stored(0, c, c_bytes);
  _tile_stored(1, c + side, c_bytes);
  if constexpr (tall) {
    _tile_stored(2, c + side * ldc, c_bytes);
    _tile_stored(3, c + side * ldc + side, c_bytes);
  }
  asm volatile("" : : : "memory");
  if (end != nullptr) ENDS.end(c, ldc, rows, *end, true);
}

template <int R>
void matrix_tile(const void* a, int64_t lda, const void* panel, int64_t k, float* c, int64_t ldc, bool first, const TileEnd* end, Ahead ahead) {
  product<(R > side)>(R, static_cast<const uint16_t*>(a), lda, static_cast<const uint16_t*>(panel), k, c, ldc, first, end, ahead);
}

double multiply_adds(int64_t rounds) {
  alignas(64) uint16_t ones[side * step];
  for (uint16_t& x : ones) x = 0x3f80;
  configure(2 * side);
  asm volatile("" : : : "memory");
  _tile_loadd(4, ones, 64);
  _tile_loadd(5, ones, 64);
  _tile_loadd(6, ones, 64);
  _tile_loadd(7, ones, 64);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  release();
  return static_cast<double>(rounds) * 4 * side * side * step * 2;
}

template <int... R>
constexpr TileOps::Tile list[] = {nullptr, matrix_tile<R + 1>...};
template <int... R>
constexpr TileOps::Tiles tiles_of(std::integer_sequence<int, R...>) {
  return {sizeof...(R), list<R...>, list<R...>, release, multiply_adds};
}

}  // namespace

const TileOps::Tiles bf16_matrix_amx = tiles_of(std::make_integer_sequence<int, 2 * side>());

}  // namespace ingot::kernels
