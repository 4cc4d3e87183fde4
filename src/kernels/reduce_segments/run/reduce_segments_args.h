// Constants of the "reduce_segments" step: rows in an order, combined segment by segment. ir/prim.def says how.
//
// Operands: x [M, rest..] (f16, bf16, f32, f64), order [N], ends [S] (i64); if there are weights, these [W, rest..] and their order [N] (i64); if there is one, a base [S, rest..]; the result [S, rest..]. All
// numbers are of x's type, with any strides. No sizes. An order outside x or the weights is an error.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct ReduceSegmentsArgs {
  enum class Kind : uint8_t { add, mul, min, max } kind = Kind::add;
  bool weighted = false, based = false;

  // Places of operands.
  static constexpr size_t x = 0, order = 1, ends = 2, weights = 3, weight_order = 4;
  size_t base() const { return weighted ? 5 : 3; }
  size_t out() const { return base() + (based ? 1 : 0); }
};
// Of the primitive's attribute.
ReduceSegmentsArgs::Kind kind_of_segments(std::string_view name);
std::vector<std::byte> serialise(const ReduceSegmentsArgs&);
ReduceSegmentsArgs parse_reduce_segments(std::span<const std::byte>);

// RunKernel::load; the result is a ReduceSegmentsArgs.
std::shared_ptr<const void> load_reduce_segments(std::span<const std::byte> constants, size_t operands, size_t sizes);
// Error (format) if the operands do not fit.
void check_reduce_segments(const Call& call);

}  // namespace ingot::kernels
