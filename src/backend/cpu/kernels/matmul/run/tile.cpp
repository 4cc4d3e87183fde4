// Chooses the tiles for this machine and for each GEMM.
#include "backend/cpu/kernels/matmul/run/tile_i8.h"

#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

using ir::DType;

using namespace matmul::tuning;

const TileOps& tile_ops() {
  static const TileOps ops = [] {
    const backend::cpu::Isa isa = backend::cpu::isa();
    using enum backend::cpu::Isa;
    TileOps chosen = isa >= avx512 ? tile_ops_avx512 : isa == avx2 ? tile_ops_avx2 : tile_ops_portable;
    if (isa >= avx512_bf16) chosen.bf16_dots = bf16_dots_avx512_bf16;
    if (isa >= amx_bf16) chosen.bf16_matrix = bf16_matrix_amx;
    return chosen;
  }();
  return ops;
}

const Int8Panels& int8_panels() {
  static const Int8Panels panels = [] {
    const backend::cpu::Isa isa = backend::cpu::isa();
    using enum backend::cpu::Isa;
    Int8Panels chosen = isa >= avx512 ? int8_panels_avx512 : isa == avx2 ? int8_panels_avx2 : int8_panels_portable;
    if (isa >= avx512_bf16) chosen.to_bf16 = int8_to_bf16_avx512;
    return chosen;
  }();
  return panels;
}

namespace {

// With few rows, an int8 panel is read directly; with more, blocks of it are decoded first. In order, all row counts use the same tiles.
Way way_of_int8(DType a, bool mapped, bool in_order, int64_t m) {
  const bool pairs = a == DType::bf16 && !mapped && int8_panels().to_bf16 != nullptr, matrix = pairs && tile_ops().bf16_matrix.tile != nullptr;
  if (m <= (matrix ? decoded_rows : narrow_rows) && !(in_order && pairs)) {
    Way way{&int8_panels().tiles, DType::f32, block_rows, narrow_rows, k_of_narrow_bytes, k_block};
    if (in_order) way.sum = k_block;
    return way;
  }
  const DType decoded = pairs ? DType::bf16 : DType::f32;
  Way way = way_of(pairs ? a : DType::f32, decoded, mapped, in_order, m);
  way.decoded = decoded;
  return way;
}

}  // namespace

// One to three rows use dot products, which read several places of a panel at a time (measured: 16 GB/s instead of 13). In order, only types and form decide,
// so that a GEMM with one row gives the same bits as one with many.
Way way_of(DType a, DType panel, bool mapped, bool in_order, int64_t m) {
  const TileOps& ops = tile_ops();
  auto summed = [&](Way way, int64_t sum) {
    way.sum = in_order ? k_block : sum;
    return way;
  };
  if (panel == DType::f64 || panel == DType::i64)
    return {panel == DType::f64 ? &ops.f64 : &ops.i64, panel, wide_block_rows, narrow_rows, k_block, k_block, false, DType::i8, k_block};
  if (panel == DType::i8) return way_of_int8(a, mapped, in_order, m);
  if (a == DType::bf16 && panel == DType::bf16 && !mapped) {
    if (ops.bf16_matrix.tile != nullptr && (in_order || m > rows_of_dots))
      return {&ops.bf16_matrix, DType::bf16, matrix_block_rows, matrix_narrow_rows, k_of_narrow_bytes, k_of_matrix, true};
    if (ops.bf16_dots.tile != nullptr) return summed({&ops.bf16_dots, DType::bf16, block_rows, narrow_rows, k_of_narrow_bytes, k_of_dots}, INT64_MAX);
  }
  if (panel == DType::bf16) return summed({&ops.bf16, DType::f32, block_rows, narrow_rows, k_of_narrow_bytes, k_block}, INT64_MAX);
  if (panel == DType::f16) return summed({&ops.f16, DType::f32, block_rows, narrow_rows, k_of_narrow_bytes, k_block}, INT64_MAX);
  // One row sums four places of a panel at a time, two and three rows sum two. Half types are rounded more coarsely, so their sums may be longer.
  return summed({&ops.f32, DType::f32, block_rows, narrow_rows, k_of_narrow_rows, k_block}, m > narrow_rows ? k_block
                                                                                            : m == 1        ? 4 * narrow_sum
                                                                                            : m <= 3        ? 2 * narrow_sum
                                                                                                            : narrow_sum);
}

}  // namespace ingot::kernels
