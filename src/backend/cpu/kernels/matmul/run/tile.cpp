// Which tiles run on this machine, and which of them multiply a product.
#include "backend/cpu/kernels/matmul/run/tile.h"

#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

using ir::DType;

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

// One row or two are read by dot products, which take several places of a panel at a time (measured: 16 GB/s instead of 13). In order it is types and form alone
// that decide, so that a product of one row has the bits of one of many.
Way way_of(DType a, DType panel, bool mapped, bool in_order, int64_t m) {
  const TileOps& ops = tile_ops();
  if (a == DType::bf16 && panel == DType::bf16 && !mapped) {
    if (ops.bf16_matrix.tile != nullptr && (in_order || m > 2)) return {&ops.bf16_matrix, DType::bf16, 256, 128, 4096, 2048, true};
    if (ops.bf16_dots.tile != nullptr) return {&ops.bf16_dots, DType::bf16, 126, few_rows, 4096, 1024};
  }
  if (panel == DType::bf16) return {&ops.bf16, DType::f32, 126, few_rows, 4096, 384};
  if (panel == DType::f16) return {&ops.f16, DType::f32, 126, few_rows, 4096, 384};
  return {&ops.f32, DType::f32, 126, few_rows, 2048, 384};
}

}  // namespace ingot::kernels
