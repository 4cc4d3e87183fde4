#include "kernels/small_matrix/run/small_matrix_checks.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ingot::kernels {

using Kind = SmallMatrixArgs::Kind;

std::shared_ptr<const void> load_small_matrix(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<SmallMatrixArgs>(parse_small_matrix(constants));
  if (operands != args->operands() || sizes != 0) fail(Code::format, "a small_matrix step has {} operands and {} sizes", operands, sizes);
  return args;
}

int matrix_axes(const SmallMatrixArgs& args, size_t operand) {
  switch (args.kind) {
    case Kind::lu: return operand < 2 ? 2 : operand == 2 ? 1 : 0;
    case Kind::solve: return operand < 3 ? 2 : 0;
    case Kind::inverse:
    case Kind::cholesky: return operand < 2 ? 2 : 0;
    case Kind::determinant: return operand == 0 ? 2 : 0;
    default: return 2;
  }
}

int64_t count_of_matrices(const TensorRef& a) { return numel(a, 2); }

void check_small_matrix(const Call& call) {
  const auto& args = *static_cast<const SmallMatrixArgs*>(call.constants);
  const TensorRef& a = call.operands[0];
  const int batch = a.rank - 2;
  bool fits = batch >= 0 && a.rank <= max_rank && (a.dtype == ir::DType::f32 || a.dtype == ir::DType::f64);
  // The sizes of an operand's matrices; -1: any.
  auto sizes = [&](size_t operand) -> std::array<int64_t, 2> {
    const int64_t m = args.rows, n = args.columns;
    if (operand == 0) return {m, n};
    if (matrix_axes(args, operand) == 1) return {args.pivots(), 0};
    if (args.kind == Kind::qr) return operand == 1 ? std::array<int64_t, 2>{m, args.wide()} : std::array<int64_t, 2>{args.wide(), n};
    return {m, args.inputs() == 2 ? call.operands[1].rank == 0 ? -1 : call.operands[1].dims[call.operands[1].rank - 1] : n};
  };
  for (size_t i = 0; fits && i < call.operands.size(); ++i) {
    const TensorRef& t = call.operands[i];
    const int axes = matrix_axes(args, i);
    const bool integers = (args.kind == Kind::lu && i >= 2) || (axes == 0 && args.kind != Kind::determinant);
    fits = t.rank == batch + axes && t.dtype == (integers ? ir::DType::i32 : a.dtype) && std::equal(a.dims, a.dims + batch, t.dims);
    for (int d = 0; fits && d < axes; ++d) fits = t.dims[batch + d] == sizes(i)[static_cast<size_t>(d)];
  }
  if (!fits) fail(Code::format, "the operands of a small_matrix step do not fit");
}

}  // namespace ingot::kernels
