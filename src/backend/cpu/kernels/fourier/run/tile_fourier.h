// Fourier transforms of several rows at a time, one table per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/fourier/run/tuning.h"
#include "ir/dtype.h"
#include "ir/fourier.h"

namespace ingot::kernels {

inline constexpr int64_t max_rows = fourier_tuning::rows_at_once;

// Some rows of a step. Operands are numbered as in fourier_args.h.
struct FourierRows {
  const void* tables = nullptr;  // FourierTables of the type
  ir::DType dtype = ir::DType::f32;
  int64_t rows = 0;
  std::byte* data[4] = {};
  int64_t first[4][max_rows] = {};  // each row's first element
  int64_t step[4] = {};              // from an element to the next
  std::byte* scratch = nullptr;      // 4 * (tables.room() * rows + fourier_tuning::gap_elements) elements
};

struct FourierOps {
  int vector_bytes;
  void (*run)(const FourierRows&);

  int64_t lanes(ir::DType t) const { return vector_bytes / static_cast<int64_t>(ir::size_of(t)); }
};

extern const FourierOps fourier_ops_portable;
extern const FourierOps fourier_ops_avx2;
extern const FourierOps fourier_ops_avx512;

}  // namespace ingot::kernels
