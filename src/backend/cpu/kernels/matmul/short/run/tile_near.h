// Rows of float32 and float64 past a B that lies as it is: register tiles without panels, one table for each instruction set.
#pragma once
#include <cstdint>

namespace ingot::kernels {

// Columns of B and of the result are neighbours. Strides are in elements.
struct NearProduct {
  int64_t rows, n, k;
  const void* a;
  int64_t a_row, a_column;
  const void* b;
  int64_t b_row;
  void* to;
  int64_t to_row;
};

struct NearTiles {
  void (*f32)(const NearProduct&);
  void (*f64)(const NearProduct&);
};
extern const NearTiles near_tiles_portable, near_tiles_avx2, near_tiles_avx512;

}  // namespace ingot::kernels
