// The "matmul_short_matrix" kernel: rows of bfloat16 that stream past a B of few terms, in AMX's matrix registers; results are only stored.
#include "backend/cpu/kernels/matmul/run/cost.h"
#include "backend/cpu/kernels/matmul/run/pack.h"
#include "backend/cpu/kernels/matmul/run/stored.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/short_matrix/run/tile_short.h"
#include "backend/cpu/run/isa.h"

namespace ingot::kernels {

namespace matmul {

namespace {

using ir::DType;

// Memory of one worker, in bytes.
struct Memory {
  int64_t panels, copy, sums;
  explicit Memory(const Stored& p, const ShortSteps& steps)
      : panels((p.n + tile_ops().columns - 1) / tile_ops().columns * steps.pairs() * row_bytes(DType::bf16)),
        copy(steps.copies() ? ShortSteps::side * steps.copied_row() * 2 : 0),
        sums(ShortSteps::side * ShortSteps::side * 4) {}
  int64_t all() const { return padded(panels) + copy + sums; }
};

Resolved resolve_short(const Call& call) {
  if (backend::cpu::isa() < backend::cpu::Isa::amx_bf16) return {0, nullptr, conv::never};
  const auto p = stored(call);
  if (p == nullptr || p->type != DType::bf16 || (p->a_column != 1 && p->k > 1)) return {0, nullptr, conv::never};
  const ProductSizes sizes{static_cast<double>(p->batch * p->m), p->m, p->n, p->k, DType::bf16, false};
  const Memory memory(*p, ShortSteps(p->k));
  return {static_cast<size_t>(memory.all() * call.workers->count()), p, cost_of_short_matrix(sizes, {backend::cpu::machine(), tile_ops().columns / 2, call.workers->count()})};
}

void pack(const Stored& p, const ShortSteps& steps, const std::byte* b, std::byte* panels) {
  const int64_t width = tile_ops().columns, bytes = row_bytes(DType::bf16), rows = panel_rows(DType::bf16, p.k);
  for (int64_t i = 0; i * width < p.n; ++i, panels += steps.pairs() * bytes) {
    pack_pairs(b, p.b_row, p.b_column, p.k, p.n, i, i + 1, panels);
    std::fill(panels + rows * bytes, panels + steps.pairs() * bytes, std::byte{});
  }
}

void run_short(const Call& call) {
  const auto& p = *static_cast<const Stored*>(call.prepared);
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const ShortSteps steps(p.k);
  const Memory memory(p, steps);
  call.workers->run(p.tasks, [&](int64_t task, int worker) {
    std::byte* const panels = call.scratch + worker * memory.all();
    std::byte* const copy = panels + padded(memory.panels);
    rows_of_task(call, p, task, [&](const StoredRows& x) {
      if (x.other_b) pack(p, steps, x.b, panels);
      short_matrix_amx.run({steps, x.rows, p.n, reinterpret_cast<const uint16_t*>(x.a), p.a_row, panels, reinterpret_cast<uint16_t*>(x.to), p.to_row},
                           reinterpret_cast<uint16_t*>(copy), reinterpret_cast<float*>(copy + memory.copy));
    });
    short_matrix_amx.release();
  });
}

}  // namespace

}  // namespace matmul

std::span<const RunKernel> matmul_short_matrix_cpu_kernels() {
  static constexpr RunKernel list[] = {{"matmul_short_matrix", matmul::load, matmul::resolve_short, matmul::run_short}};
  return list;
}

}  // namespace ingot::kernels
