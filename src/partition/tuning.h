// What torch takes around a call of an operator, in dispatches (Machine::dispatch), compared with an operator of elements. They are estimates: segments that are kept or dropped by them differ by
// factors. On an AMD EPYC (Zen 4, one thread) calls on tensors of one element take, compared with an addition's 1.2 us: a view 0.7, a product 1.0 to 1.6, a transform 2.3, a Cholesky factor 1.3, an
// inverse 10 and each further matrix of it 0.05 (`timeit` of torch.add, Tensor.view, linear, torch.fft.rfft, torch.linalg.cholesky_ex, torch.linalg.inv_ex).
#pragma once
#include <cstddef>

namespace ingot::partition::tuning {

// Dispatches of a view, a matrix product, and a transform, which dispatches several operators.
inline constexpr double view = 0.2, product = 1.6, transform = 3;
// Torch calls LAPACK matrix by matrix: dispatches of the whole call, and of each matrix. Solvers and determinants factor first.
struct Matrices {
  double call, matrix;
};
inline constexpr Matrices solver{3, 0.06}, factor{0.8, 0.01};  // dispatches

// Operators of which the report says how many segments there were with them: each needs a partition of its own (a bound of time, not measured).
inline constexpr size_t max_explained_operators = 16;

}  // namespace ingot::partition::tuning
