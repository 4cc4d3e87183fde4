// A fused body without an anchor: pointwise operations, and reductions along rows.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t rank = 1 + c.below(4);
  const DType type = c.one_of({DType::f32, DType::f16});
  const Dims dims = c.dims(rank);
  Handle x = c.input("x", type, dims), y = x;
  if (c.one_in(2)) y = c.one_in(2) ? y * c.input("z", type, dims) : y + c.weight("w", type, {dims.back()});
  if (c.one_in(2)) y = c.one_in(2) ? sigmoid(y) : select(y < 0.0, y * 0.5, y);
  const Axis axis = c.below(rank);
  if (c.one_in(2)) {
    const Handle e = exp(y);
    y = e / (sum(e, {axis}, keep) + 1.0);
  } else if (c.one_in(2)) {
    y = sum(y, {axis}, c.one_in(2) ? keep : drop);
  }
  c.output("y", y);
  return c.take();
}

}  // namespace

extern const Definition fused_definition;
const Definition fused_definition{"fused", {{Role::body, any}, {Role::output}, {Role::output, any}}, {}, nullptr, nullptr, random_case};

}  // namespace ingot::kernels
