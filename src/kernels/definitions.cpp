// The kernels, one line each.
#include "kernels/definition.h"

#include <algorithm>
#include <array>

namespace ingot::kernels {

#define INGOT_KERNELS(X) \
  X(fused) \
  X(matmul) X(matmul_pack) X(implicit_gemm) X(conv) X(depthwise_conv) X(attention) X(scan) X(sort) X(scatter) X(scatter_along) X(moments) X(small_matrix) X(fourier) X(grid_sample)
#define X(name) extern const Definition name##_definition;
INGOT_KERNELS(X)
#undef X

std::span<const Definition* const> definitions() {
#define X(name) &name##_definition,
  static const std::array list{INGOT_KERNELS(X)};
#undef X
  return list;
}

bool Definition::takes(size_t count) const {
  const auto one = static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [](const OperandName& o) { return !o.any; }));
  return one == operands.size() ? count == one : count >= one;
}

const Definition* definition_of(std::string_view kernel) {
  for (const Definition* d : definitions()) {
    if (d->name == kernel || std::find(d->implementations.begin(), d->implementations.end(), kernel) != d->implementations.end()) return d;
  }
  return nullptr;
}

const Definition* definition_of(ir::Op op) {
  for (const Definition* d : definitions()) {
    if (std::find(d->ops.begin(), d->ops.end(), op) != d->ops.end()) return d;
  }
  return nullptr;
}

}  // namespace ingot::kernels
