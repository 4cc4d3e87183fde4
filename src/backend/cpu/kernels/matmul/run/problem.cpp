#include "backend/cpu/kernels/matmul/run/problem.h"

#include "backend/cpu/kernels/matmul/run/pack.h"
#include "base/error.h"

namespace ingot::kernels::matmul {

using ir::DType;

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  MatmulArgs args = parse_matmul(bytes);
  auto c = std::make_shared<Constants>();
  c->packed = args.packed;
  c->in_order = args.in_order;
  c->batch_rank = args.batch_rank;
  c->groups = args.groups;
  c->map = std::move(args.map);
  if (operands <= product_roles.size() || sizes < 3 + c->map_sizes()) fail(Code::format, "a matmul step has {} operands and {} sizes", operands, sizes);
  c->body = load_program(args.body, operands - product_roles.size(), sizes - 3 - c->map_sizes());
  if (c->body->domain_rank != c->batch_rank + 2 || c->body->row_rank != 1 || c->body->has_reductions) fail(Code::format, "a matmul step's body has another domain");
  return c;
}

Problem checked(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  Problem p{{}, call.sizes[0], call.sizes[1], call.sizes[2]};
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  if (p.m < 0 || p.n < 0 || p.k < 0) fail(Code::format, "matmul: a negative size");
  if (c.map) p.rows.emplace(*c.map, c.batch_rank, a, call.sizes.subspan(3, c.map_sizes()), p.m, p.k);
  if (!c.map && a.rank != c.batch_rank + 2) fail(Code::format, "matmul: A has rank {}", a.rank);
  std::vector<int64_t> domain;
  for (int d = 0; d < c.batch_rank; ++d) {
    domain.push_back(c.map ? p.rows->batch(d) : a.dims[d]);
    p.batch *= domain.back();
  }
  if (!c.map && (a.dims[c.batch_rank] != p.m || a.dims[c.batch_rank + 1] != p.k)) fail(Code::format, "matmul: A does not have the sizes M and K");
  domain.push_back(p.m);
  domain.push_back(p.n);
  if (c.packed) {
    if ((c.groups.size > 0 && b.dtype != DType::i8) || !holds_panels(b, b.dtype, p.k, p.n, c.groups)) fail(Code::format, "matmul: the packed operand does not fit");
  } else {
    if (b.rank != c.batch_rank + 2 || b.dims[c.batch_rank] != p.k || b.dims[c.batch_rank + 1] != p.n) fail(Code::format, "matmul: B does not have the sizes K and N");
    for (int d = 0; d < c.batch_rank; ++d) {
      if (b.dims[d] != domain[static_cast<size_t>(d)]) fail(Code::format, "matmul: A and B have different batch sizes");
    }
  }
  p.bound = bind_program(c.body, body_operands(call.operands), call.sizes.subspan(3 + c.map_sizes()), domain, false);
  p.f32 = half_or_float(a.dtype) && (half_or_float(b.dtype) || (c.packed && b.dtype == DType::i8)) && (!c.body->has_accumulator || c.body->accumulator == Class::f32);
  if (p.f32) return p;
  if (c.map) fail(Code::format, "matmul: {} read through a map", ir::name_of(a.dtype));
  const Class want = c.body->accumulator;
  const bool fits = a.dtype == b.dtype && (want == Class::f64 ? a.dtype == DType::f64 : want == Class::i64 && !is_float(a.dtype) && a.dtype != DType::b8);
  if (!fits) fail(Code::format, "matmul: {} times {} into another type", ir::name_of(a.dtype), ir::name_of(b.dtype));
  return p;
}

}  // namespace ingot::kernels::matmul
