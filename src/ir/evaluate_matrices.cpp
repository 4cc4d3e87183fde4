// Linear algebra of small matrices, one matrix after another.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "ir/evaluate.h"

namespace ingot::ir {

namespace {

#include "ir/small_matrix_of_numbers.inc"

}  // namespace

void evaluate_matrices(const Node& node, const std::vector<const Data*>& in, const std::vector<Data*>& out) {
  const Op op = node.op;
  const size_t rank = in[0]->dims.size();
  const int m = static_cast<int>(in[0]->dims[rank - 2]), n = static_cast<int>(in[0]->dims[rank - 1]);
  const auto size = static_cast<size_t>(m) * static_cast<size_t>(n), each = static_cast<size_t>(std::min(m, n));
  const size_t batch = size == 0 ? 0 : in[0]->f.size() / size;
  const auto columns = in.size() == 2 ? static_cast<size_t>(in[1]->dims.back()) : static_cast<size_t>(n);
  if (in.size() == 2 && in[1]->f.size() != batch * static_cast<size_t>(n) * columns) fail(Code::invalid_input, "{}: the two sides do not fit", name_of(op));
  std::vector<int> pivots(each);
  std::vector<double> a(size), b, taus(each);
  for (size_t matrix = 0; matrix < batch; ++matrix) {
    std::copy_n(in[0]->f.data() + matrix * size, size, a.data());
    int info = 0;
    auto store = [&](size_t result, std::span<const double> values) { std::copy(values.begin(), values.end(), out[result]->f.data() + matrix * values.size()); };
    switch (op) {
      case Op::lu:
        factor_lu(a.data(), m, n, pivots.data(), info);
        store(0, a);
        for (size_t k = 0; k < each; ++k) out[1]->i[matrix * each + k] = pivots[k] + 1;
        out[2]->i[matrix] = info;
        break;
      case Op::solve:
      case Op::inverse:
        b.assign(static_cast<size_t>(n) * columns, 0);
        if (op == Op::solve) std::copy_n(in[1]->f.data() + matrix * b.size(), b.size(), b.data());
        for (size_t i = 0; op == Op::inverse && i < columns; ++i) b[i * columns + i] = 1;
        factor_lu(a.data(), n, n, pivots.data(), info);
        solve_factored(a.data(), pivots.data(), n, b.data(), static_cast<int>(columns));
        store(0, b);
        out[1]->i[matrix] = info;
        break;
      case Op::determinant:
        factor_lu(a.data(), n, n, pivots.data(), info);
        determinant(a.data(), pivots.data(), n, out[0]->f[matrix], out[1]->f[matrix], out[2]->f[matrix]);
        break;
      case Op::cholesky:
        factor_cholesky(a.data(), n, info);
        store(0, a);
        out[1]->i[matrix] = info;
        break;
      case Op::solve_triangular:
        b.resize(static_cast<size_t>(n) * columns);
        std::copy_n(in[1]->f.data() + matrix * b.size(), b.size(), b.data());
        solve_triangular(a.data(), n, node.attributes.boolean("upper"), node.attributes.boolean("unit"), b.data(), static_cast<int>(columns));
        store(0, b);
        break;
      default: {
        const int wide = static_cast<int>(out[0]->dims.back());
        b.resize(static_cast<size_t>(m) * static_cast<size_t>(wide));
        factor_qr(a.data(), m, n, taus.data());
        form_q(a.data(), taus.data(), m, n, std::min(m, n), b.data(), wide);
        store(0, b);
        for (int i = 0; i < m; ++i) std::fill_n(a.data() + i * n, std::min(i, n), 0.0);
        store(1, std::span(a).first(static_cast<size_t>(wide) * static_cast<size_t>(n)));
      }
    }
  }
}

}  // namespace ingot::ir
