// The "matmul_short" kernel: rows of float32 or float64 that stream past a B of few terms and columns, which is read where it is; results are only stored.
#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/matmul/run/stored.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/short/run/tile_near.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace matmul {

namespace {

using ir::DType;

const NearTiles& near_tiles() { return INGOT_TABLES(near_tiles).best(); }

// True if B's rows are turned into a copy whose columns are neighbours.
bool turns(const Stored& p) { return p.b_column != 1 && p.n > 1; }
int64_t copied_bytes(const Stored& p) { return turns(p) ? padded(p.n * p.k * static_cast<int64_t>(ir::size_of(p.type))) : 0; }

Resolved resolve_near(const Call& call) {
  const auto p = stored(call);
  if (p == nullptr || (p->type != DType::f32 && p->type != DType::f64)) return {0, nullptr, conv::never};
  if (turns(*p) && p->b_row != 1 && p->k > 1) return {0, nullptr, conv::never};
  const ProductSizes sizes{static_cast<double>(p->batch * p->m), p->m, p->n, p->k, p->type, false};
  return {static_cast<size_t>(copied_bytes(*p) * call.workers->count()), p, cost_of_short(sizes, {backend::cpu::machine(), tile_ops().columns / 2, call.workers->count()})};
}

void run_near(const Call& call) {
  const auto& p = *static_cast<const Stored*>(call.prepared);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const NearTiles& tiles = near_tiles();
  const auto run = p.type == DType::f32 ? tiles.f32 : tiles.f64;
  call.workers->run(p.tasks, [&](int64_t task, int worker) {
    std::byte* const copy = call.scratch + worker * copied_bytes(p);
    rows_of_task(call, p, task, [&](const StoredRows& x) {
      if (turns(p) && x.other_b) block_ops().transpose_elements(ir::size_of(p.type), copy, p.n, x.b, p.b_column, p.n, p.k);
      run({x.rows, p.n, p.k, x.a, p.a_row, p.a_column, turns(p) ? copy : x.b, turns(p) ? p.n : p.b_row, x.to, p.to_row});
    });
  });
}

}  // namespace

}  // namespace matmul

std::span<const RunKernel> matmul_short_cpu_kernels() {
  static constexpr RunKernel list[] = {{"matmul_short", matmul::load, matmul::resolve_near, matmul::run_near}};
  return list;
}

}  // namespace ingot::kernels
