#include "partition/gain.h"

#include <algorithm>
#include <span>

#include "partition/choice.h"
#include "partition/tuning.h"

namespace ingot::partition {

using ir::Graph;

namespace {

bool is_one_of(std::string_view name, std::span<const std::string_view> names) { return std::find(names.begin(), names.end(), name) != names.end(); }

// What torch calls LAPACK for, matrix by matrix. Null: not such an operator.
const tuning::Matrices* matrices_of(std::string_view name) {
  constexpr std::string_view dear[] = {"linalg_inv_ex",   "_linalg_solve_ex", "linalg_solve_ex", "_linalg_det", "linalg_det", "det",
                                       "_linalg_slogdet", "linalg_slogdet",   "slogdet",         "logdet",      "linalg_qr"};
  constexpr std::string_view cheap[] = {"linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_solve_triangular", "triangular_solve", "cholesky_solve"};
  return is_one_of(name, dear) ? &tuning::solver : is_one_of(name, cheap) ? &tuning::factor : nullptr;
}

}  // namespace

double saved_by(const Graph& g, ir::NodeId n, const Machine& machine) {
  constexpr std::string_view views[] = {"view",  "reshape", "transpose", "permute", "unsqueeze",  "squeeze", "expand",  "select",
                                        "slice", "t",       "alias",     "detach",  "contiguous", "to",      "dropout", "flatten"};
  constexpr std::string_view products[] = {"linear", "matmul", "addmm", "bmm", "scaled_dot_product_attention"};
  const std::string_view name = without_namespace(without_overload(target(g, n)));
  const double dispatch = machine.dispatch * 1e-3;
  if (is_one_of(name, views)) return tuning::view * dispatch;
  if (const tuning::Matrices* of = matrices_of(name)) {
    double matrices = 1;
    const ir::Dims& dims = g.type(g.nodes[n].in[0]).dims;
    for (size_t d = 0; d + 2 < dims.size(); ++d) matrices *= static_cast<double>(dims[d].constant().value_or(1));
    return (of->call + of->matrix * matrices) * dispatch;
  }
  if (name.starts_with("_fft") || name.starts_with("fft_") || name == "stft" || name == "istft") return tuning::transform * dispatch;
  return is_one_of(name, products) ? tuning::product * dispatch : dispatch;
}

double cost_of_call(size_t tensors, const Machine& machine) { return 2e-3 * (machine.call + machine.binding * static_cast<double>(tensors)); }

}  // namespace ingot::partition
