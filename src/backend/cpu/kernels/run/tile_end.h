// How the sums of a tile end once they are in memory: one table an instruction set, which all tiles of that set share. What is short, tiles do in registers by
// themselves; it is the rest that would be long in each of them.
#pragma once
#include <cstdint>

#include "backend/cpu/kernels/run/tuning.h"
#include "backend/cpu/kernels/run/vector_program.h"

namespace ingot::kernels {

// How the last K block of a product's tile ends.
struct TileEnd {
  using Activation = SimpleEpilogue::Activation;
  const void* scale = nullptr;     // of the tile's columns, before the bias, or null
  const void* bias = nullptr;      // of the tile's columns, or null
  const void* residual = nullptr;  // of the tile, or null
  int64_t residual_stride = 0;
  Activation activation = SimpleEpilogue::none;  // after the bias, before the residual
  bool activates_last = false;     // after the residual
  float low = 0, high = 0;         // of clamp
  HardSwish hard_swish_by;
  float slope = 0;                 // of leaky
  ir::DType scale_type = ir::DType::f32, bias_type = ir::DType::f32, residual_type = ir::DType::f32;
  // Where the results go as numbers of a half type; null: they take the place of the sums.
  uint16_t* half = nullptr;
  int64_t half_stride = 0;
  ir::DType half_type = ir::DType::bf16;
  const VectorEnd* program = nullptr;  // instead of scale, bias, activation and residual

  // Few instructions: a tile does them before its sums leave the registers.
  static bool is_short(Activation a) {
    return a == SimpleEpilogue::none || a == SimpleEpilogue::relu || a == SimpleEpilogue::clamp || a == SimpleEpilogue::hard_swish || a == SimpleEpilogue::leaky;
  }
  bool is_short() const { return is_short(activation) && program == nullptr && half == nullptr && (residual == nullptr || residual_type == ir::DType::f32); }
};

struct TileEnds {
  // All of `end` on `rows` rows of sums, as wide as a panel. `bare`: the sums are without scale and bias; else it is what follows these.
  void (*end)(float* c, int64_t ldc, int rows, const TileEnd& end, bool bare);
  // The body on `count` vectors of sums, the first of them at `row` and `column`: `wide` of a row, then those of the next. Whole groups of them are there to be
  // written, whatever follows `count`.
  void (*program)(const VectorEnd&, float* sums, int count, int64_t row, int64_t column, int wide);
  // GELU in both forms and SiLU of `count` vectors.
  void (*activate)(SimpleEpilogue::Activation, float* sums, int count);
};
extern const TileEnds tile_ends_portable, tile_ends_avx2, tile_ends_avx512;

constexpr int vectors_at_once = run_tuning::vectors_at_once;
constexpr int whole_groups(int vectors) { return (vectors + vectors_at_once - 1) / vectors_at_once * vectors_at_once; }

}  // namespace ingot::kernels
