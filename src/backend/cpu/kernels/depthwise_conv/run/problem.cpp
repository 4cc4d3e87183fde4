#include "backend/cpu/kernels/depthwise_conv/run/problem.h"

#include "base/error.h"

namespace ingot::kernels::depthwise {

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  c->args = parse_depthwise_conv(bytes);
  if (operands <= product_roles.size() || sizes < c->map_sizes()) fail(Code::format, "a depthwise convolution has {} operands and {} sizes", operands, sizes);
  c->body = load_program(c->args.body, operands - product_roles.size(), sizes - c->map_sizes());
  c->args.body = {};
  const Program& p = *c->body;
  const bool fits = p.domain_rank == c->args.kept && p.row_rank == 1 && !p.has_reductions && (!p.has_accumulator || p.accumulator == Class::f32);
  if (!fits) fail(Code::format, "a depthwise convolution's body has another domain");
  return c;
}

Problem checked(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  Problem p;
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  const size_t kept = c.args.kept, indices = kept + c.args.summed;
  auto refuse = [](const char* what) { fail(Code::format, "a depthwise convolution: {}", what); };
  if (a.dtype != ir::DType::f32 || b.dtype != ir::DType::f32) refuse("the operands are not f32");
  if (a.rank != c.args.rank || b.rank != static_cast<int>(indices)) refuse("the operands do not have their ranks");
  p.map = resolve_index_map("a depthwise convolution", c.args.steps, a, call.sizes.first(c.map_sizes()));
  std::vector<int64_t> domain;
  for (size_t i = 0; i < indices; ++i) {
    const int64_t extent = p.map.indices[i].extent;
    if (b.dims[i] != extent && b.dims[i] != 1) refuse("B does not have the sizes of the indices");
    p.b_strides.push_back(b.dims[i] == extent ? b.strides[i] : 0);
    if (i < kept) domain.push_back(extent);
  }
  p.width = p.map.indices[kept - 2].extent;
  p.channels = p.map.indices[kept - 1].extent;
  p.bound = bind_program(c.body, body_operands(call.operands), call.sizes.subspan(c.map_sizes()), domain, false);
  for (size_t i = 0; i + 2 < kept; ++i) p.lines *= domain[i];
  return p;
}

}  // namespace ingot::kernels::depthwise
