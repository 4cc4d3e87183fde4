// GEMM, and implicit GEMM, which reads A through a map. Without a kernel, a fused body computes it with reductions over K.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// A linear layer, whose weight is encoded one time in three, or a product of two computed values, with an epilogue.
Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const DType type = c.one_of({DType::f32, DType::f16});
  const Dim m = c.one_in(3) ? Dim(1) : Dim(c.size()), n = c.one_in(2) ? Dim(8 * (1 + c.below(4))) : Dim(c.size()), k = c.one_in(20) ? Dim(0) : Dim(c.size());
  Dims batch = c.dims(c.below(3)), a = batch;
  a.insert(a.end(), {m, k});
  const bool layer = c.one_in(2);
  Dims b = layer || c.one_in(2) ? Dims{} : batch;
  b.insert(b.end(), {k, n});
  const Handle x = c.input("a", type, a);
  auto weight = [&] {
    if (!c.one_in(3)) return c.weight("w", type, {n, k});
    const Handle numbers = cast(c.weight("w", DType::i8, {n, k}), type);
    return c.one_in(3) ? numbers : numbers * c.weight("scale", type, {n, 1});
  };
  Handle y = matmul(x, layer ? transpose(weight(), 0, 1) : c.input("b", type, b));
  c.output("y", c.ended(y));
  return c.take();
}

}  // namespace

extern const Definition matmul_definition;
const Definition matmul_definition{"matmul",
                                   {{Role::a, optional},
                                    {Role::prologue, any},
                                    {Role::b},
                                    {Role::b, any},
                                    {Role::scale, optional},
                                    {Role::zero, optional},
                                    {Role::row_ends, optional},
                                    {Role::body, any},
                                    {Role::output},
                                    {Role::output, any}},
                                   {},
                                   nullptr,
                                   nullptr,
                                   random_case};

}  // namespace ingot::kernels
