#include "backend/cuda/kernels/small_matrix/run/small_matrix_cuda_args.h"

#include <array>
#include <bit>

#include "base/error.h"

namespace ingot::kernels {

int matrix_group(const SmallMatrixArgs& args) { return static_cast<int>(std::bit_ceil(unsigned{args.rows})); }

std::string small_matrix_cuda_name(const SmallMatrixArgs& a, ir::DType type) {
  constexpr std::array<std::string_view, 7> names{"lu", "solve", "inverse", "determinant", "cholesky", "solve_triangular", "qr"};
  std::string form;
  if (a.upper) form += "_upper";
  if (a.unit) form += "_unit";
  if (a.complete) form += "_complete";
  return fmt::format("matrix_{}{}_{}_{}_{}", names[static_cast<size_t>(a.kind)], form, a.rows, a.columns, ir::name_of(type));
}

}  // namespace ingot::kernels
