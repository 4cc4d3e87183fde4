// The kernels: one line each.
#include "kernels/definition.h"

#include <algorithm>
#include <array>

namespace ingot::kernels {

#define INGOT_KERNELS(X) X(fused) X(matmul) X(depthwise_conv) X(attention) X(scan) X(sort) X(scatter) X(scatter_along)
#define X(name) extern const Definition name##_definition;
INGOT_KERNELS(X)
#undef X

std::span<const Definition* const> definitions() {
#define X(name) &name##_definition,
  static const std::array list{INGOT_KERNELS(X)};
#undef X
  return list;
}

const Definition* definition_of(ir::Op op) {
  for (const Definition* d : definitions()) {
    if (std::find(d->ops.begin(), d->ops.end(), op) != d->ops.end()) return d;
  }
  return nullptr;
}

}  // namespace ingot::kernels
