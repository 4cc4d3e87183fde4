// Constants of the "small_matrix" step: linear algebra of each matrix of a batch.
//
// Operands, with matrices along the last two axes and the same batch axes before them:
//   lu                a, factors, pivots (i32), info (i32)
//   solve             a, b, x, info
//   inverse           a, inverse, info
//   determinant       a, determinant, sign, logarithm
//   cholesky          a, L, info
//   solve_triangular  a, b, x
//   qr                a, Q, R
// All but pivots and info are of one type, f32 or f64. Results share no memory with operands. No sizes. ir/prim.def says what they mean.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot::kernels {

struct SmallMatrixArgs {
  enum class Kind : uint8_t { lu, solve, inverse, determinant, cholesky, solve_triangular, qr };
  Kind kind = Kind::lu;
  uint8_t rows = 1, columns = 1;     // of a
  bool upper = false, unit = false;  // of solve_triangular
  bool complete = false;             // of qr: Q is square

  int pivots() const { return rows < columns ? rows : columns; }
  // Columns of Q.
  int wide() const { return complete ? rows : pivots(); }
  size_t inputs() const { return kind == Kind::solve || kind == Kind::solve_triangular ? 2 : 1; }
  size_t operands() const;
};
std::vector<std::byte> serialise(const SmallMatrixArgs&);
SmallMatrixArgs parse_small_matrix(std::span<const std::byte>);

}  // namespace ingot::kernels
