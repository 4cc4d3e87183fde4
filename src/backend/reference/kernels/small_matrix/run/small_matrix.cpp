// Linear algebra of small matrices in double, one matrix after another.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/op.h"
#include "kernels/run/elements.h"
#include "kernels/small_matrix/run/small_matrix_checks.h"

namespace ingot::kernels {

namespace {

using Kind = SmallMatrixArgs::Kind;

#include "ir/small_matrix_of_numbers.inc"

// a, b, and pivots or taus.
size_t doubles_of(const Call& call) {
  const auto& args = *static_cast<const SmallMatrixArgs*>(call.constants);
  const int64_t columns = args.inputs() == 2 ? call.operands[1].dims[call.operands[1].rank - 1] : std::max<int64_t>(args.rows, args.columns);
  return static_cast<size_t>(args.rows) * (args.columns + static_cast<size_t>(columns)) + static_cast<size_t>(args.pivots());
}

Resolved resolve(const Call& call) {
  check_small_matrix(call);
  return {doubles_of(call) * sizeof(double), nullptr};
}

// The matrix of an operand at one place of the batch.
struct Matrix {
  TensorRef whole;
  int64_t offset = 0, row = 0, column = 0;
  std::byte* at(int i, int64_t j) const { return element(whole, offset + i * row + j * column); }
};

template <class E>
void run_matrix(const SmallMatrixArgs& args, const Matrix* of, int64_t right, double* scratch) {
  const int m = args.rows, n = args.columns, each = args.pivots();
  double* const a = scratch;
  double* const b = a + m * n;
  double* const last = b + m * (args.inputs() == 2 ? right : std::max(m, n));
  auto* const pivots = reinterpret_cast<int*>(last);
  int info = 0;
  auto load = [&](double* to, const Matrix& from, int rows, int64_t columns) {
    for (int i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * columns + j] = E::get(from.at(i, j));
    }
  };
  auto store = [&](const Matrix& to, const double* from, int rows, int64_t columns) {
    for (int i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) E::put(to.at(i, j), from[i * columns + j]);
    }
  };
  auto store_integer = [](std::byte* to, int value) { PlainElement<int32_t>::put(to, value); };
  load(a, of[0], m, n);
  switch (args.kind) {
    case Kind::lu:
      factor_lu(a, m, n, pivots, info);
      store(of[1], a, m, n);
      for (int k = 0; k < each; ++k) store_integer(of[2].at(0, k), pivots[k] + 1);
      store_integer(of[3].at(0, 0), info);
      break;
    case Kind::solve:
      factor_lu(a, n, n, pivots, info);
      load(b, of[1], n, right);
      solve_factored(a, pivots, n, b, static_cast<int>(right));
      store(of[2], b, n, right);
      store_integer(of[3].at(0, 0), info);
      break;
    case Kind::inverse:
      factor_lu(a, n, n, pivots, info);
      for (int i = 0; i < n * n; ++i) b[i] = i % (n + 1) == 0 ? 1 : 0;
      solve_factored(a, pivots, n, b, n);
      store(of[1], b, n, n);
      store_integer(of[2].at(0, 0), info);
      break;
    case Kind::determinant: {
      double results[3];
      factor_lu(a, n, n, pivots, info);
      determinant(a, pivots, n, results[0], results[1], results[2]);
      for (int i = 0; i < 3; ++i) store(of[i + 1], &results[i], 1, 1);
      break;
    }
    case Kind::cholesky:
      factor_cholesky(a, n, info);
      store(of[1], a, n, n);
      store_integer(of[2].at(0, 0), info);
      break;
    case Kind::solve_triangular:
      load(b, of[1], n, right);
      solve_triangular(a, n, args.upper, args.unit, b, static_cast<int>(right));
      store(of[2], b, n, right);
      break;
    case Kind::qr:
      factor_qr(a, m, n, last);
      form_q(a, last, m, n, each, b, args.wide());
      store(of[1], b, m, args.wide());
      for (int i = 0; i < m; ++i) std::fill_n(a + i * n, std::min(i, n), 0.0);
      store(of[2], a, args.wide(), n);
  }
}

void run(const Call& call) {
  const auto& args = *static_cast<const SmallMatrixArgs*>(call.constants);
  const TensorRef& a = call.operands[0];
  const int batch = a.rank - 2;
  const TensorRef outer{nullptr, a.dtype, batch, a.dims, nullptr};
  const int64_t right = args.inputs() == 2 ? call.operands[1].dims[batch + 1] : 0, count = count_of_matrices(a);
  for (int64_t n = 0; n < count; ++n) {
    int64_t at[max_rank] = {};
    coordinates(n, outer, at);
    Matrix of[4];
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const TensorRef& t = call.operands[i];
      const int axes = matrix_axes(args, i);
      of[i] = {t, 0, axes == 2 ? t.strides[batch] : 0, axes == 2 ? t.strides[batch + 1] : axes == 1 ? t.strides[batch] : 0};
      for (int d = 0; d < batch; ++d) of[i].offset += at[d] * t.strides[d];
    }
    auto* scratch = reinterpret_cast<double*>(call.scratch);
    a.dtype == ir::DType::f32 ? run_matrix<PlainElement<float>>(args, of, right, scratch) : run_matrix<PlainElement<double>>(args, of, right, scratch);
  }
}

}  // namespace

std::span<const RunKernel> small_matrix_reference_kernels() {
  static constexpr RunKernel list[] = {{"small_matrix", load_small_matrix, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
