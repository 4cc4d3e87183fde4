// GEMM, and implicit GEMM, which reads A through a map. Without a kernel, a fused body computes it with reductions over K.
#include "kernels/definition.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

// Products of experts, of which some have no rows, and some rows no expert.
Graph experts_case(std::mt19937& random) {
  RandomCase c(random);
  const DType type = c.one_of({DType::f32, DType::f16});
  const Dim m = c.size(), n = c.one_in(2) ? Dim(8 * (1 + c.below(4))) : Dim(c.size()), k = c.one_in(2) ? Dim(8 * (1 + c.below(4))) : Dim(c.size()),
            experts = c.one_of<int64_t>({1, 2, 3, 12});
  const Handle counts = map(Op::mod, {c.input("counts", DType::i64, {experts}), 5});
  const Handle a = c.input("a", type, {m, k}), b = c.one_in(2) ? c.input("b", type, {experts, k, n}) : transpose(c.weight("w", type, {experts, n, k}), 1, 2);
  const Handle ends = scan("sum", counts, 0);
  c.output("y", c.ended(ragged_matmul(a, b, c.one_in(2) ? ends : cast(ends, DType::i32))));
  return c.take();
}

// A linear layer, whose weight is encoded one time in three, or a product of two computed values, with an epilogue.
Graph random_case(std::mt19937& random) {
  if (random() % 4 == 0) return experts_case(random);
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

// Products of experts. With few experts, one product with all matrices: its rows hold a at their expert and 0 elsewhere, and each matrix is read once. Else the matrix of each row is
// gathered.
std::vector<ValueId> expand_ragged(Graph& to, const Node&, const std::vector<ValueId>& in) {
  constexpr int64_t max_masked_experts = 8;
  const Handle a(&to, in[0]), b(&to, in[1]), ends(&to, in[2]);
  const Dim rows = a.dim(0), experts = b.dim(0);
  const Handle expert = sum(unsqueeze(iota(to, rows), 1) >= unsqueeze(cast(ends, DType::i64), 0), {1});
  if (experts.constant().value_or(INT64_MAX) <= max_masked_experts) {
    const Handle mine = equal(reshape(expert, {rows, Dim(1), Dim(1)}), ir::index(to, {Dim(1), experts, Dim(1)}, 1));
    const Handle by_expert = select(mine, unsqueeze(a, 1), 0.0);
    return {matmul(reshape(by_expert, {rows, experts * a.dim(1)}), reshape(b, {experts * b.dim(1), b.dim(2)})).id()};
  }
  const Handle of_row = gather(b, {0}, {minimum(expert, Operand(experts - Dim(1)))}, 0, false);
  const Handle y = sum(cast(unsqueeze(a, 1), compute_type(a.dtype())) * cast(transpose(of_row, 1, 2), compute_type(a.dtype())), {-1});
  return {cast(select(unsqueeze(expert < Operand(experts), 1), y, 0.0), a.dtype()).id()};
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
                                   {Op::ragged_matmul},
                                   nullptr,
                                   expand_ragged,
                                   random_case,
                                   {"matmul_*", "ragged", "gemm_ragged", "gemm_ragged_tiles"}};

}  // namespace ingot::kernels
