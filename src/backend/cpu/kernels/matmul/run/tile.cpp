// The tiles of this machine, and those for each GEMM.
#include "backend/cpu/kernels/matmul/run/tile_i4.h"
#include "backend/cpu/kernels/matmul/run/tile_i8.h"

#include <utility>

#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

using backend::cpu::Isa;
using ir::DType;

using namespace matmul::tuning;

const TileOps& tile_ops() {
  static const TileOps ops = [] {
    TileOps chosen = INGOT_TABLES(tile_ops).best();
#if defined(__x86_64__)
    if (backend::cpu::isa() >= Isa::avx512_bf16) chosen.bf16_dots = bf16_dots_avx512_bf16;
    if (backend::cpu::isa() >= Isa::amx_bf16) chosen.bf16_matrix = bf16_matrix_amx;
#endif
    return chosen;
  }();
  return ops;
}

const Int8Panels& int8_panels() {
  static const Int8Panels panels = [] {
    Int8Panels chosen = INGOT_TABLES(int8_panels).best();
#if defined(__x86_64__)
    if (backend::cpu::isa() >= Isa::avx512_bf16) chosen.to_bf16 = int8_to_bf16_avx512;
#endif
    return chosen;
  }();
  return panels;
}

const Int4Panels& int4_panels() {
  static const Int4Panels panels = [] {
    Int4Panels chosen = INGOT_TABLES(int4_panels).best();
#if defined(__x86_64__)
    if (backend::cpu::isa() >= Isa::avx512_bf16) chosen.to_bf16 = int4_to_bf16_avx512;
#endif
    return chosen;
  }();
  return panels;
}

namespace {

// At most this many products are one sum.
Way summed(Way way, const Operands& o, int64_t sum) {
  way.sum = o.in_order ? k_block : sum;
  return way;
}

// True if bf16 is multiplied as it is: A is in memory, and a panel has pairs, or int8 that is decoded to them.
bool are_pairs(const Operands& o) {
  return o.sum == DType::f32 && o.a == DType::bf16 && !o.mapped && (o.b == DType::bf16 || (o.packed && o.b == DType::i8 && int8_panels().to_bf16 != nullptr));
}

Way decoding(Way way, const Operands& o) {
  if (o.b == DType::i8) way.decoded = std::exchange(way.panel, DType::i8);
  way.groups = o.groups;
  return way;
}

}  // namespace

Way way_of_tiles(const Operands& o) {
  const TileOps& ops = tile_ops();
  if (o.sum != DType::f32) return {o.sum == DType::f64 ? &ops.f64 : &ops.i64, o.sum, o.sum, wide_block_rows, narrow_rows, k_block, k_block, false, DType::i8, k_block};
  const DType panel = o.packed ? o.b : DType::f32;
  if (o.groups.size > 0 && o.m <= rows_of_int4) {
    Way way = summed({&int4_panels().tiles, DType::f32, panel, block_rows, narrow_rows, k_of_narrow_bytes, k_block}, o, INT64_MAX);
    way.groups = o.groups;
    return way;
  }
  // With few rows, an int8 panel is read directly; with more, blocks of it are decoded first. In order, both give the same bits.
  if (panel == DType::i8 && o.groups.size == 0 && o.m <= narrow_rows)
    return summed({&int8_panels().tiles, DType::f32, panel, block_rows, narrow_rows, k_of_narrow_bytes, k_block}, o, INT64_MAX);
  if (panel == DType::bf16 || panel == DType::f16)
    return summed({panel == DType::bf16 ? &ops.bf16 : &ops.f16, DType::f32, panel, block_rows, narrow_rows, k_of_narrow_bytes, k_block}, o, INT64_MAX);
  // One row sums four places of a panel at a time, two and three rows sum two. Half types are rounded more coarsely, so their sums may be longer.
  const int64_t sum = o.m > narrow_rows ? k_block : o.m == 1 ? 4 * narrow_sum : o.m <= 3 ? 2 * narrow_sum : narrow_sum;
  return decoding(summed({&ops.f32, DType::f32, DType::f32, block_rows, narrow_rows, k_of_narrow_rows, k_block}, o, sum), o);
}

// One to three rows use dot products, which read several places of a panel at a time (measured: 16 GB/s instead of 13).
std::optional<Way> way_of_dots(const Operands& o) {
  const TileOps::Tiles& tiles = tile_ops().bf16_dots;
  if (tiles.tile == nullptr || !are_pairs(o)) return std::nullopt;
  return decoding(summed({&tiles, DType::bf16, DType::bf16, block_rows, narrow_rows, k_of_narrow_bytes, k_of_dots}, o, INT64_MAX), o);
}

std::optional<Way> way_of_matrix(const Operands& o) {
  const TileOps::Tiles& tiles = tile_ops().bf16_matrix;
  if (tiles.tile == nullptr || !are_pairs(o)) return std::nullopt;
  return decoding({&tiles, DType::bf16, DType::bf16, matrix_block_rows, matrix_narrow_rows, k_of_narrow_bytes, k_of_matrix, true}, o);
}

// In order, only types decide, so that a GEMM with one row gives the same bits as one with many.
Way way_of(const Operands& o) {
  if (const auto matrix = way_of_matrix(o); matrix && (o.in_order || o.m > rows_of_dots)) return *matrix;
  const auto dots = way_of_dots(o);
  return dots ? *dots : way_of_tiles(o);
}

}  // namespace ingot::kernels
