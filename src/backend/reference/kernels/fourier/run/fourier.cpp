// Fourier transforms in double, one row after another.
#include <utility>

#include "kernels/fourier/run/fourier_checks.h"
#include "kernels/run/elements.h"

namespace ingot::kernels {

namespace {

#include "ir/fourier_of_numbers.inc"

using Tables = ir::FourierTables<double>;

// The four parts of a row, and what fourier_of_row needs.
size_t doubles_of(const Tables& t) { return static_cast<size_t>(2 * (t.given() + t.made()) + 4 * t.room()); }

Resolved resolve(const Call& call) {
  const int64_t n = check_fourier(call);
  auto tables = std::make_shared<const Tables>(static_cast<const FourierArgs*>(call.constants)->kind, n);
  return {doubles_of(*tables) * sizeof(double), tables};
}

template <class E>
void run_rows(const Call& call, const Tables& tables) {
  const auto& args = *static_cast<const FourierArgs*>(call.constants);
  const TensorRef& first = call.operands[0];
  auto* const parts = reinterpret_cast<double*>(call.scratch);
  double* const results = parts + 2 * tables.given();
  const TensorRef outer{nullptr, first.dtype, first.rank - 1, first.dims, nullptr};
  for (int64_t row = 0; row < count_of_transforms(first); ++row) {
    int64_t at[max_rank] = {};
    coordinates(row, outer, at);
    auto place = [&](const TensorRef& t, int64_t j) {
      int64_t offset = j * t.strides[t.rank - 1];
      for (int d = 0; d < outer.rank; ++d) offset += at[d] * t.strides[d];
      return element(t, offset);
    };
    for (size_t i = 0; i < args.inputs(); ++i) {
      for (int64_t j = 0; j < tables.given(); ++j) parts[static_cast<int64_t>(i) * tables.given() + j] = E::get(place(call.operands[i], j));
    }
    fourier_of_row(tables, parts, parts + tables.given(), results, results + tables.made(), results + 2 * tables.made());
    for (size_t i = args.inputs(); i < args.operands(); ++i) {
      for (int64_t j = 0; j < tables.made(); ++j) E::put(place(call.operands[i], j), results[static_cast<int64_t>(i - args.inputs()) * tables.made() + j]);
    }
  }
}

void run(const Call& call) {
  const auto& tables = *static_cast<const Tables*>(call.prepared);
  call.operands[0].dtype == ir::DType::f32 ? run_rows<PlainElement<float>>(call, tables) : run_rows<PlainElement<double>>(call, tables);
}

}  // namespace

std::span<const RunKernel> fourier_reference_kernels() {
  static constexpr RunKernel list[] = {{"fourier", load_fourier_of_one_axis, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
