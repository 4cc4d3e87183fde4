// The "depthwise_conv" step. Operands: A, B [kept.., summed..], then the body's over the kept indices. A is read through a map from all indices. Sizes: the
// indices' extents, the offsets along A's axes, then the body's.
#include "backend/reference/kernels/depthwise_conv/run/depthwise_conv_args.h"
#include "backend/reference/run/sums.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Constants {
  DepthwiseConvConstants args;
  Body body;
  MapSteps map() const { return {args.rank, size_t{args.kept} + args.summed, args.steps}; }
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  FieldReader from{bytes, "the constants of a depthwise_conv step"};
  depthwise_conv_fields(from, c->args);
  const DepthwiseConvConstants& a = c->args;
  const bool good = a.kept >= 1 && a.kept <= max_rank && a.summed <= max_rank && a.rank >= 1;
  c->body = read_sums(from, "depthwise_conv", good, c->map(), a.kept, product_roles, operands, sizes);
  return c;
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const TensorRef &a = call.operands[0], &b = call.operands[1];
  auto s = std::make_shared<Sums>();
  s->roles.assign(product_roles.begin(), product_roles.end());
  s->body = bind(c.body, call.operands.subspan(s->roles.size()), call.sizes.subspan(c.map().sizes()));
  const size_t kept = c.args.kept, indices = kept + c.args.summed;
  if (a.rank != static_cast<int>(c.args.rank) || b.rank != static_cast<int>(indices)) fail(Code::format, "depthwise_conv: an operand does not have its rank");
  s->map = resolve_index_map("depthwise_conv", c.args.steps, a, call.sizes.first(c.map().sizes()));
  for (size_t i = 0; i < indices; ++i) {
    const IndexMap::Index& index = s->map.indices[i];
    if (b.dims[i] != index.extent && b.dims[i] != 1) fail(Code::format, "depthwise_conv: B does not have the sizes of the indices");
    const SumIndex with_b{index, {.number = b.dims[i] == index.extent ? b.strides[i] : 0}};
    i < kept ? s->kept.push_back({with_b}) : s->summed.push_back(with_b);
  }
  return resolve_sums(std::move(s), call);
}

}  // namespace

std::span<const RunKernel> depthwise_conv_reference_kernels() {
  static constexpr RunKernel list[] = {{"depthwise_conv", load, resolve, run_sums}};
  return list;
}

}  // namespace ingot::kernels
