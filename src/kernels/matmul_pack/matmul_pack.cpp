// Packs a GEMM's constant B for the backend's matmul, in prepare. The format of its output is up to the backend.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// Linear layers of one input, whose weights are contiguous along K or along N.
Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const DType type = c.one_of({DType::f32, DType::f16});
  const Dim m = c.size(), k = c.size();
  const Handle x = c.input("x", type, {m, k});
  for (const char* name : {"v", "w"}) {
    const Dim n = c.size();
    c.output(name, matmul(x, c.one_in(2) ? c.weight(name, type, {k, n}) : transpose(c.weight(name, type, {n, k}), 0, 1)));
  }
  return c.take();
}

}  // namespace

extern const Definition matmul_pack_definition;
const Definition matmul_pack_definition{
    "matmul_pack", {{Role::b}, {Role::scale, optional}, {Role::zero, optional}, {Role::output}}, {}, nullptr, nullptr, random_case, {"matmul_pack_*", "ragged_pack"}};

}  // namespace ingot::kernels
