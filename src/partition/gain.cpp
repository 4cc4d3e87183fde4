#include "partition/gain.h"

#include <algorithm>
#include <utility>

#include "partition/choice.h"

namespace ingot::partition {

using ir::Graph;

namespace {

// Torch calls LAPACK matrix by matrix: its overhead in microseconds for each operator and each matrix, at least. 0, 0: not such an operator.
std::pair<double, double> saved_by_matrices(std::string_view name) {
  constexpr std::string_view dear[] = {"linalg_inv_ex",   "_linalg_solve_ex", "linalg_solve_ex", "_linalg_det", "linalg_det", "det",
                                       "_linalg_slogdet", "linalg_slogdet",   "slogdet",         "logdet",      "linalg_qr"};
  constexpr std::string_view cheap[] = {"linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_solve_triangular", "triangular_solve", "cholesky_solve"};
  if (std::find(std::begin(dear), std::end(dear), name) != std::end(dear)) return {15, 0.3};
  if (std::find(std::begin(cheap), std::end(cheap), name) != std::end(cheap)) return {4, 0.05};
  return {0, 0};
}

}  // namespace

double saved_by(const Graph& g, ir::NodeId n) {
  // Views cost no memory traffic.
  constexpr std::string_view cheap[] = {"view",  "reshape", "transpose", "permute", "unsqueeze",  "squeeze", "expand",  "select",
                                        "slice", "t",       "alias",     "detach",  "contiguous", "to",      "dropout", "flatten"};
  std::string_view name = without_namespace(without_overload(target(g, n)));
  if (std::find(std::begin(cheap), std::end(cheap), name) != std::end(cheap)) return 1;
  if (const auto [call, matrix] = saved_by_matrices(name); call > 0) {
    double matrices = 1;
    const ir::Dims& dims = g.type(g.nodes[n].in[0]).dims;
    for (size_t d = 0; d + 2 < dims.size(); ++d) matrices *= static_cast<double>(dims[d].constant().value_or(1));
    return call + matrix * matrices;
  }
  if (name.starts_with("_fft") || name.starts_with("fft_") || name == "stft" || name == "istft") return 15;  // torch's transforms dispatch several operators
  return name == "linear" || name == "matmul" || name == "addmm" || name == "bmm" || name == "scaled_dot_product_attention" ? 8 : 5;
}

double cost_of_call(size_t tensors) { return 2 * (5 + 0.25 * static_cast<double>(tensors)); }

}  // namespace ingot::partition
