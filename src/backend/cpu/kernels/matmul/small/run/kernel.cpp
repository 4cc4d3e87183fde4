// The "matmul_small" kernel: many small products of one float type whose result is only stored, without panels.
#include <algorithm>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/matmul/run/problem.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace matmul {

namespace {

using ir::DType;

struct Small : Problem {
  explicit Small(Problem p) : Problem(std::move(p)) {}
  SmallProducts sizes = {};  // distances are those of the last batch axis
};

// True if the body stores the sums as they are.
bool only_stores(const SimpleEpilogue& s) { return s.valid && s.scale < 0 && s.bias < 0 && s.residual < 0 && s.activation == SimpleEpilogue::none; }

// False if they are not small, or do not lie as the kernel reads them: half types are widened where they lie one after another.
bool find_sizes(Small& p, const Constants& c, const Call& call) {
  const bool plain = !c.packed && !c.map && !c.in_order && c.batch_rank > 0;
  if (!p.f32 || !plain || !only_stores(c.body->simple)) return false;
  if (p.k == 0 || std::max({p.m, p.n, p.k}) > tuning::max_small) return false;
  const TensorRef &a = call.operands[0], &b = call.operands[1], &to = call.operands[body_operand(c.body->stores[0].operand)];
  const int rank = c.batch_rank;
  const SmallProducts& s =
      p.sizes = {p.m, p.k, p.n, a.strides[rank], a.strides[rank + 1], a.strides[rank - 1], b.strides[rank], b.strides[rank - 1], to.strides[rank], to.strides[rank - 1]};
  const bool one_type = a.dtype == b.dtype && a.dtype == to.dtype, contiguous = b.strides[rank + 1] == 1 && to.strides[rank + 1] == 1;
  if (!one_type || !contiguous || (p.n == 1 && p.k > 1)) return false;
  const bool solid = s.a_column == 1 && s.a_row == p.k && s.a_batch == p.m * p.k && s.b_row == p.n && s.b_batch == p.k * p.n && s.c_row == p.n && s.c_batch == p.m * p.n;
  return a.dtype == DType::f32 || solid;
}

Resolved resolve_small(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto p = std::make_shared<Small>(checked(call));
  if (!find_sizes(*p, c, call)) return {0, nullptr, conv::never};
  const ProductSizes sizes{static_cast<double>(p->batch * p->m), p->m, p->n, p->k, DType::f32, false};
  return {0, p, cost_of_small(sizes, {backend::cpu::machine(), tile_ops().columns / 2, call.workers->count()})};
}

// `count` products that follow one another along the last batch axis, from number `first` on.
void run_some(const Call& call, const Constants& c, const Small& p, int64_t first, int64_t count) {
  constexpr int64_t most = tuning::widened_elements;
  const SmallProducts& s = p.sizes;
  const TensorRef &a = call.operands[0], &b = call.operands[1], &to = call.operands[body_operand(c.body->stores[0].operand)];
  int64_t a_offset = 0, b_offset = 0, c_offset = 0;
  for (int d = c.batch_rank - 1; d >= 0; --d) {
    const int64_t at = first % a.dims[d];
    first /= a.dims[d];
    a_offset += at * a.strides[d], b_offset += at * b.strides[d], c_offset += at * to.strides[d];
  }
  const TileOps& ops = tile_ops();
  const auto size = static_cast<int64_t>(ir::size_of(a.dtype));
  const std::byte *from_a = a.data + a_offset * size, *from_b = b.data + b_offset * size;
  std::byte* into = to.data + c_offset * size;
  if (a.dtype == DType::f32) return ops.small_products(s, reinterpret_cast<const float*>(from_a), reinterpret_cast<const float*>(from_b), reinterpret_cast<float*>(into), count);
  float wide_a[most], wide_b[most], sums[most];
  const int64_t of_a = s.m * s.k, of_b = s.k * s.n, of_c = s.m * s.n, step = most / std::max({of_a, of_b, of_c});
  for (int64_t done = 0; done < count; done += step) {
    const int64_t some = std::min(step, count - done);
    ops.widen(a.dtype, wide_a, reinterpret_cast<const uint16_t*>(from_a) + done * of_a, some * of_a);
    ops.widen(a.dtype, wide_b, reinterpret_cast<const uint16_t*>(from_b) + done * of_b, some * of_b);
    ops.small_products(s, wide_a, wide_b, sums, some);
    block_ops().store(a.dtype, into + done * of_c * size, 1, {sums, false}, some * of_c);
  }
}

void run_small(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  const auto& p = *static_cast<const Small*>(call.prepared);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const int64_t run = call.operands[0].dims[c.batch_rank - 1], of_few = tuning::multiplications_of_task / (p.m * p.n * p.k) + 1;
  const int64_t parts = std::clamp<int64_t>(run / of_few, 1, 4 * call.workers->count());  // of each run along the last batch axis
  call.workers->run(p.batch / run * parts, [&](int64_t t, int) {
    const int64_t begin = run * (t % parts) / parts, end = run * (t % parts + 1) / parts;
    run_some(call, c, p, t / parts * run + begin, end - begin);
  });
}

}  // namespace

}  // namespace matmul

std::span<const RunKernel> matmul_small_cpu_kernels() {
  static constexpr RunKernel list[] = {{"matmul_small", matmul::load, matmul::resolve_small, matmul::run_small}};
  return list;
}

}  // namespace ingot::kernels
