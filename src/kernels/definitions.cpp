// The kernels, one line each.
#include "kernels/definition.h"

#include <algorithm>
#include <array>

namespace ingot::kernels {

#define INGOT_KERNELS(X) \
  X(fused) \
  X(matmul) \
  X(matmul_pack) \
  X(implicit_gemm) \
  X(conv) X(depthwise_conv) X(attention) X(scan) X(sort) X(scatter) X(scatter_along) X(order_segments) X(reduce_segments) X(moments) X(small_matrix) X(fourier) X(grid_sample)
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
  using Times = RoleOf::Times;
  auto are = [&](Times times) { return static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [&](const RoleOf& o) { return o.times == times; })); };
  const size_t once = are(Times::once);
  return count >= once && (are(Times::any) > 0 || count <= once + are(Times::optional));
}

std::vector<Role> Definition::roles(size_t inputs, size_t outputs) const {
  auto left = static_cast<size_t>(std::count_if(operands.begin(), operands.end(), [](const RoleOf& o) { return o.times == RoleOf::Times::once && o.role != Role::output; }));
  std::vector<Role> out;
  for (const RoleOf& o : operands) {
    if (o.role == Role::output) break;
    if (o.times == RoleOf::Times::once) --left;
    const size_t limit = o.times == RoleOf::Times::any ? SIZE_MAX : 1;
    out.insert(out.end(), std::min(limit, inputs - std::min(inputs, out.size() + left)), o.role);
  }
  out.insert(out.end(), outputs, Role::output);
  return out;
}

const Definition* definition_of(std::string_view kernel) {
  auto is_named = [&](std::string_view name) { return name.ends_with('*') ? kernel.starts_with(name.substr(0, name.size() - 1)) : kernel == name; };
  for (const Definition* d : definitions()) {
    if (d->name == kernel) return d;
  }
  for (const Definition* d : definitions()) {
    if (std::any_of(d->implementations.begin(), d->implementations.end(), is_named)) return d;
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
