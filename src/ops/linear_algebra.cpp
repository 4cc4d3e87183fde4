// Factorisations, inverses and solutions of small matrices. Composites that may raise an error (linalg_inv, linalg_solve, linalg_cholesky, ...) have no definition:
// torch writes them out as these and a check of `info` (_linalg_check_errors).
#include <cmath>
#include <optional>

#include "base/assertion.h"
#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ops/binding.h"

namespace ingot::ops {

using namespace ir;

namespace {

// Refuses what the primitives do not take.
void check_matrix(const Value& a, const char* what) {
  if (a.rank() < 2) fail(Code::invalid_input, "{}: a matrix has two axes, not {}", what, a.rank());
  if (a.dtype() != DType::f32 && a.dtype() != DType::f64) fail(Code::unsupported, "{} of {} (engines have float32 and float64)", what, name_of(a.dtype()));
  for (Axis axis : {-2, -1}) {
    const auto n = a.dim(axis).constant();
    if (!n) fail(Code::unsupported, "{} of matrices whose size is open: engines have known sizes up to {}", what, max_matrix);
    if (*n < 1 || *n > max_matrix)
      fail(Code::unsupported, "{} of matrices of {} x {}: engines have sizes from 1 to {}", what, a.dim(-2).text(a.graph().symbols), a.dim(-1).text(a.graph().symbols), max_matrix);
  }
}

void check_square(const Value& a, const char* what) {
  check_matrix(a, what);
  if (a.dim(-2) != a.dim(-1)) fail(Code::invalid_input, "{} of a matrix that is not square", what);
}

// A failed factorisation is seen in `info`; with `check` the operator itself would raise.
void refuse_check(bool check, const char* what) {
  if (check) fail(Code::unsupported, "{} with check_errors=True raises an error, which engines leave to torch", what);
}

Dims batch_of(const Value& x, int64_t own_axes = 2) {
  if (x.rank() < own_axes) fail(Code::invalid_input, "an operand with {} axes where {} are needed", x.rank(), own_axes);
  return {x.dims().begin(), x.dims().end() - own_axes};
}

Dims with(Dims batch, std::initializer_list<Dim> own_axes) {
  batch.insert(batch.end(), own_axes);
  return batch;
}

Value matrix_transpose(const Value& x) { return transpose(x, -2, -1); }

Value identity_like(const Value& a) { return cast(equal(ir::index(a.graph(), a.dims(), a.rank() - 2), ir::index(a.graph(), a.dims(), a.rank() - 1)), a.dtype()); }

std::pair<Value, Value> inv_ex(const Value& a, bool check) {
  check_square(a, "the inverse");
  refuse_check(check, "linalg_inv_ex");
  return inverse(a);
}

Determinant determinant_of(const Value& a) {
  check_square(a, "the determinant");
  return determinant(a);
}

// torch factors the transpose of a row-major matrix, which has the same determinant.
std::vector<Value> det(const Value& a) {
  const Value value = determinant_of(a).value;
  const Lu factors = lu(matrix_transpose(a));
  return {value, factors.factors, factors.pivots};
}

std::vector<Value> slogdet(const Value& a) {
  const Determinant d = determinant_of(a);
  const Lu factors = lu(matrix_transpose(a));
  return {d.sign, d.log, factors.factors, factors.pivots};
}

std::vector<Value> solve_ex(const Value& a, Value b, bool left, bool check) {
  check_square(a, "the solution");
  refuse_check(check, "linalg_solve_ex");
  // A right side with an axis less is a vector for each matrix, if its sizes are those of the matrices' rows.
  bool vector = b.rank() == 1;
  if (!vector && b.rank() == a.rank() - 1) {
    vector = true;
    for (Axis d = 0; d < b.rank(); ++d) vector = vector && known_equal(b.dim(d), a.dim(d), a.graph().symbols) == Truth::yes;
  }
  if (vector && !left) fail(Code::invalid_input, "a vector on the left of a matrix");
  if (vector) b = unsqueeze(b, -1);
  auto [x, info] = left ? solve(a, b) : solve(matrix_transpose(a), matrix_transpose(b));
  if (!left) x = matrix_transpose(x);
  if (vector) x = squeeze(x, -1);
  // info has the batch axes of a, whatever those of b.
  if (info.dims() != batch_of(a)) info = lu(a).info;
  const Lu factors = lu(matrix_transpose(a));
  return {x, factors.factors, factors.pivots, info};
}

std::pair<Value, Value> cholesky_ex(const Value& a, bool upper, bool check) {
  check_square(a, "the Cholesky factor");
  refuse_check(check, "linalg_cholesky_ex");
  if (!upper) return cholesky(a);
  const auto [l, info] = cholesky(matrix_transpose(a));
  return {matrix_transpose(l), info};
}

// x with a x = b, or x a = b.
Value triangular(const Value& a, const Value& b, bool upper, bool left, bool unit) {
  check_square(a, "the triangular solution");
  return left ? solve_triangular(a, b, upper, unit) : matrix_transpose(solve_triangular(matrix_transpose(a), matrix_transpose(b), !upper, unit));
}

std::vector<Value> triangular_solve(const Value& b, const Value& a, bool upper, bool transposed, bool unit) {
  check_square(a, "the triangular solution");
  const Value x = transposed ? solve_triangular(matrix_transpose(a), b, !upper, unit) : solve_triangular(a, b, upper, unit);
  return {x, expand(a, with(batch_of(x), {a.dim(-2), a.dim(-1)}))};
}

// x with L L^T x = b, or U^T U x = b.
Value cholesky_solve(const Value& b, const Value& factor, bool upper) {
  check_square(factor, "the solution");
  const Value lower = upper ? matrix_transpose(factor) : factor;
  return solve_triangular(matrix_transpose(lower), solve_triangular(lower, b, false, false), true, false);
}

std::tuple<Value, Value, Value> lu_factor_ex(const Value& a, bool pivot, bool check) {
  check_matrix(a, "the LU factors");
  refuse_check(check, "linalg_lu_factor_ex");
  if (!pivot) fail(Code::unsupported, "the LU factors without pivoting");
  const Lu out = lu(a);
  return {out.factors, out.pivots, out.info};
}

// How many steps are written out for an axis.
int64_t steps_of(const Value& x, const char* what) {
  const auto n = x.dim(-1).constant();
  if (!n || *n > max_matrix) fail(Code::unsupported, "{} of {}: engines have known numbers of them up to {}", what, x.dim(-1).text(x.graph().symbols), max_matrix);
  return *n;
}

// Where each of n rows comes from if row i is swapped with row pivots[i], counted from 1, one after another; or from the last to the first, which takes them back. [.., n]
Value row_order(const Value& pivots, const Dim& n, bool back) {
  const int64_t count = steps_of(pivots, "pivots");
  const Value place = ir::index(pivots.graph(), with(batch_of(pivots, 1), {n}), pivots.rank() - 1);
  Value order = place;
  for (int64_t step = 0; step < count; ++step) {
    const int64_t i = back ? count - 1 - step : step;
    const Value other = cast(slice(pivots, -1, Dim(i), Dim(i + 1), 1), DType::i64) - 1;
    const Value mine = slice(order, -1, Dim(i), Dim(i + 1), 1), theirs = sum(select(equal(place, other), order, 0), {-1}, keep);
    order = select(equal(place, i), theirs, select(equal(place, other), mine, order));
  }
  return order;
}

// L [m, k] and U [k, n], from both in one matrix.
std::pair<Value, Value> unpacked(const Value& factors) {
  const Dim m = factors.dim(-2), n = factors.dim(-1), k = min(m, n);
  const Value below = slice(factors, -1, Dim(0), k, 1), above = slice(factors, -2, Dim(0), k, 1);
  auto column_minus_row = [](const Value& x) { return ir::index(x.graph(), {x.dim(-2), x.dim(-1)}, 1) - ir::index(x.graph(), {x.dim(-2), x.dim(-1)}, 0); };
  const Value from_diagonal = column_minus_row(below);
  return {select(from_diagonal < 0, below, cast(equal(from_diagonal, 0), below.dtype())), select(column_minus_row(above) < 0, 0.0, above)};
}

// P [m, m] with P L U = A.
Value permutation(const Value& pivots, const Dim& m, DType t) {
  const Value row = ir::index(pivots.graph(), {m, m}, 0);
  return cast(equal(row, unsqueeze(row_order(pivots, m, false), -2)), t);
}

std::tuple<Value, Value, Value> linalg_lu(const Value& a, bool pivot) {
  check_matrix(a, "the LU factors");
  if (!pivot) fail(Code::unsupported, "the LU factors without pivoting");
  const Lu out = lu(a);
  const auto [l, u] = unpacked(out.factors);
  return {permutation(out.pivots, a.dim(-2), a.dtype()), l, u};
}

std::tuple<Value, Value, Value> lu_unpack(const Value& factors, const Value& pivots, bool data, bool with_pivots) {
  check_matrix(factors, "the LU factors");
  const Value nothing = full(factors.graph(), {Dim(0)}, 0, factors.dtype());
  const auto [l, u] = data ? unpacked(factors) : std::pair(nothing, nothing);
  return {with_pivots ? permutation(pivots, factors.dim(-2), factors.dtype()) : nothing, l, u};
}

// x with A x = b, or A^T x = b, where A = P L U.
Value lu_solve(const Value& factors, const Value& pivots, const Value& given, bool left, bool adjoint) {
  check_square(factors, "the solution");
  if (!left) return matrix_transpose(lu_solve(factors, pivots, matrix_transpose(given), true, !adjoint));
  const Value b = expand(given, with(require_broadcast(given.graph(), {batch_of(factors), batch_of(given)}), {given.dim(-2), given.dim(-1)}));
  auto ordered = [&](const Value& x, bool back) { return take_along(x, -2, expand(unsqueeze(row_order(pivots, factors.dim(-1), back), -1), x.dims())); };
  if (!adjoint) return solve_triangular(factors, solve_triangular(factors, ordered(b, false), false, true), true, false);
  return ordered(solve_triangular(matrix_transpose(factors), solve_triangular(matrix_transpose(factors), b, false, false), true, true), true);
}

// H1 H2 .. Hk x, or Hk .. H2 H1 x. Hi = I - tau_i v_i v_i^T, where v_i is column i of `a` below the diagonal, and 1 on it.
Value reflected(const Value& a, const Value& tau, Value x, bool last_first) {
  const int64_t count = steps_of(tau, "reflections");
  const Value row = ir::index(a.graph(), {a.dim(-2), Dim(1)}, 0);
  for (int64_t step = 0; step < count; ++step) {
    const int64_t i = last_first ? count - 1 - step : step;
    const Value v = select(row > i, slice(a, -1, Dim(i), Dim(i + 1), 1), cast(equal(row, i), a.dtype()));
    x = x - v * (unsqueeze(slice(tau, -1, Dim(i), Dim(i + 1), 1), -1) * sum(v * x, {-2}, keep));
  }
  return x;
}

Value householder_product(const Value& a, const Value& tau) { return reflected(a, tau, identity_like(a), true); }

std::pair<Value, Value> linalg_qr(const Value& a, const std::string& mode) {
  check_matrix(a, "the QR factors");
  if (mode != "reduced" && mode != "complete" && mode != "r") fail(Code::invalid_input, "linalg_qr: mode \"{}\"", mode);
  const auto [q, r] = qr(a, mode == "complete");
  return {mode == "r" ? full(a.graph(), {Dim(0)}, 0, a.dtype()) : q, r};
}

// What eager says of a failure, by the name of the function. '#' is the order at which it failed.
std::string_view failure_of(std::string_view function) {
  constexpr std::pair<std::string_view, std::string_view> texts[] = {
      {"inv", "The diagonal element # is zero, the inversion could not be completed because the input matrix is singular."},
      {"solve", "The solver failed because the input matrix is singular."},
      {"lu_factor",
       "U[#,#] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
       "linalg.lu_factor_ex(A, pivot)"},
      {"cholesky", "The factorization could not be completed because the input is not positive-definite (the leading minor of order # is not positive-definite)."},
  };
  for (const auto& [name, text] : texts) {
    if (function.find(name) != std::string_view::npos) return text;
  }
  fail(Code::unsupported, "the errors of {}", function);
}

// The model fails where one of `info` is not 0: where an algorithm failed.
void check_errors(const Value& info, const std::string& function, bool one) {
  const std::string_view text = failure_of(function);
  Graph& g = info.graph();
  const Value each = cast(reshape(info, {Dim(-1)}), DType::i64);
  const Value failure = select(equal(each, 0), INT64_MAX, ir::index(g, each.dims(), 0) * matrix_failures + each);
  const Value first = amin(pad(failure, {Dim(0)}, {Dim(1)}, INT64_MAX), {0});  // there may be no matrix at all
  const Dim number = read_size(select(equal(first, INT64_MAX), 0, first), std::nullopt);
  g.checks.push_back({number, Dim(0), Check::equal, g.current_origin, fmt::format("{}{}\n{}", one ? one_matrix : matrices, function, text)});
}

// The Cholesky factor, or the model fails.
Value cholesky_or_error(const Value& a, bool upper) {
  const auto [factor, info] = cholesky_ex(a, upper, false);
  check_errors(info, "cholesky", a.rank() == 2);
  return factor;
}

// By scaling and squaring: exp(A) = exp(A / 2^s)^(2^s). With a norm of at most 1 Taylor's polynomial of degree 19 is exact in double; its terms by fives are
// coefficients of a polynomial in A^5 (Paterson and Stockmeyer, SIAM Journal on Computing 2, 1973).
Value matrix_exp(const Value& given) {
  check_square(widened(given), "the exponential");
  constexpr int degree = 19, together = 5;
  Graph& g = given.graph();
  const Value a = cast(given, DType::f64), norm = amax(sum(abs(a), {-2}, keep), {-1}, keep);
  const Value halvings = select(norm < INFINITY, maximum(floor(log2(norm)) + 1.0, 0.0), 0.0);  // log2(0) is -inf
  std::vector<Value> powers{identity_like(a), a * exp2(-halvings)};
  while (powers.size() <= together) powers.push_back(matmul(powers.back(), powers[1]));
  std::optional<Value> y;
  for (int first = degree + 1 - together; first >= 0; first -= together) {
    Value terms = powers[0] / std::tgamma(first + 1);
    for (int k = 1; k < together; ++k) terms = terms + powers[static_cast<size_t>(k)] / std::tgamma(first + k + 1);
    y = y ? matmul(*y, powers[together]) + terms : terms;
  }
  const Value times = cast(halvings, DType::i64);
  const Dim largest = read_size(amax(pad(reshape(times, {Dim(-1)}), {Dim(0)}, {Dim(1)}, 0), {0}), std::nullopt);
  const auto turn = [](const Value& turn, const std::vector<Value>& carried, const std::vector<Value>& others) -> std::vector<Value> {
    return {select(others[0] > turn, matmul(carried[0], carried[0]), carried[0])};
  };
  return cast(repeat(g, largest, {*y}, {times}, turn)[0], given.dtype());
}

const Definition linear_algebra_rows[] = {
    {"linalg_inv_ex(Tensor A, *, bool check_errors=False)", [](Value a, bool check) { return inv_ex(a, check); }},
    {"_linalg_det(Tensor A)", [](Value a) { return det(a); }},
    {"_linalg_slogdet(Tensor A)", [](Value a) { return slogdet(a); }},
    {"{linalg_det,det}(Tensor {A,self})", [](Value a) { return determinant_of(a).value; }},
    {"{linalg_slogdet,slogdet}(Tensor {A,self})",
     [](Value a) {
       const Determinant d = determinant_of(a);
       return std::pair(d.sign, d.log);
     }},
    {"logdet(Tensor self)",
     [](Value a) {
       const Determinant d = determinant_of(a);
       return select(d.sign < 0, NAN, d.log);
     }},
    {"linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)", Types::same,
     [](Value a, Value b, bool left, bool check) {
       const std::vector<Value> all = solve_ex(a, b, left, check);
       return std::pair(all[0], all[3]);
     }},
    {"_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False)", Types::same,
     [](Value a, Value b, bool left, bool check) { return solve_ex(a, b, left, check); }},
    {"linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False)", [](Value a, bool upper, bool check) { return cholesky_ex(a, upper, check); }},
    {"cholesky(Tensor self, bool upper=False)", [](Value a, bool upper) { return cholesky_or_error(a, upper); }},
    {"cholesky_inverse(Tensor self, bool upper=False)",
     [](Value factor, bool upper) {
       check_square(factor, "the inverse");
       return cholesky_solve(identity_like(factor), factor, upper);
     }},
    {"{linalg_matrix_exp,matrix_exp}(Tensor self)", [](Value a) { return matrix_exp(a); }},
    {"cholesky_solve(Tensor self, Tensor input2, bool upper=False)", Types::same, [](Value b, Value factor, bool upper) { return cholesky_solve(b, factor, upper); }},
    {"linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False)", Types::same,
     [](Value a, Value b, bool upper, bool left, bool unit) { return triangular(a, b, upper, left, unit); }},
    {"triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)", Types::same,
     [](Value b, Value a, bool upper, bool transposed, bool unit) { return triangular_solve(b, a, upper, transposed, unit); }},
    {"linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)", [](Value a, bool pivot, bool check) { return lu_factor_ex(a, pivot, check); }},
    {"_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix)", [](Value info, std::string function, bool one) { check_errors(info, function, one); }},
    {"linalg_lu(Tensor A, *, bool pivot=True)", [](Value a, bool pivot) { return linalg_lu(a, pivot); }},
    {"lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)", Types::each,
     [](Value factors, Value pivots, bool data, bool with_pivots) { return lu_unpack(factors, pivots, data, with_pivots); }},
    {"linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False)", Types::each,
     [](Value factors, Value pivots, Value b, bool left, bool adjoint) { return lu_solve(factors, pivots, b, left, adjoint); }},
    {"linalg_householder_product(Tensor input, Tensor tau)", Types::same, [](Value a, Value tau) { return householder_product(a, tau); }},
    {"ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False)", Types::same,
     [](Value a, Value tau, Value x, bool left, bool transposed) {
       return left ? reflected(a, tau, x, !transposed) : matrix_transpose(reflected(a, tau, matrix_transpose(x), transposed));
     }},
    {"linalg_qr(Tensor A, str mode='reduced')", [](Value a, std::string mode) { return linalg_qr(a, mode); }},
};

}  // namespace

std::span<const Definition> linear_algebra_definitions() { return linear_algebra_rows; }

}  // namespace ingot::ops
