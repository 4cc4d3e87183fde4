// Linear algebra of as many small matrices at a time as a vector has lanes, one table per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/small_matrix/run/tuning.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "kernels/small_matrix/run/small_matrix_args.h"

namespace ingot::kernels {

// The matrices of one vector. Operands are numbered as in small_matrix_args.h.
struct MatricesOfVector {
  SmallMatrixArgs args;
  ir::DType dtype = ir::DType::f32;
  int64_t columns = 0;  // of the right side
  int count = 0;        // of matrices; the other lanes repeat the first and are not stored
  std::byte* data[4] = {};
  int64_t first[4][small_matrix_tuning::max_lanes] = {};  // each matrix's first element
  int64_t row[4] = {}, column[4] = {};  // strides
  std::byte* scratch = nullptr;  // scratch_bytes()
};

struct MatrixOps {
  int vector_bytes;
  void (*run)(const MatricesOfVector&);

  int lanes(ir::DType t) const { return vector_bytes / static_cast<int>(ir::size_of(t)); }
  // a, one block of columns of b or Q, pivots or taus.
  size_t scratch_bytes(const SmallMatrixArgs& a) const {
    return static_cast<size_t>(vector_bytes) *
           (static_cast<size_t>(a.rows) * (a.columns + static_cast<size_t>(small_matrix_tuning::columns_at_once)) + static_cast<size_t>(a.pivots()));
  }
};

extern const MatrixOps matrix_ops_portable;
extern const MatrixOps matrix_ops_avx2;
extern const MatrixOps matrix_ops_avx512;

}  // namespace ingot::kernels
