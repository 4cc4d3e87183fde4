// Fourier transforms on the CPU: several rows side by side in vectors, a long row alone.
#include <algorithm>

#include "backend/cpu/kernels/fourier/run/tile_fourier.h"
#include "backend/cpu/run/isa.h"
#include "kernels/fourier/run/fourier_checks.h"
#include "kernels/run/elements.h"

namespace ingot::kernels {

namespace {

const FourierOps& fourier_ops() {
  static const FourierOps& chosen = INGOT_TABLES(fourier_ops).best();
  return chosen;
}

// For one set of sizes.
struct Prepared {
  std::shared_ptr<const void> tables;
  int64_t rows = 1;  // side by side
  size_t scratch_of_worker = 0;
};

template <class T>
std::shared_ptr<const Prepared> prepared_of(const Call& call, int64_t n) {
  auto tables = std::make_shared<const ir::FourierTables<T>>(static_cast<const FourierArgs*>(call.constants)->kind, n);
  const int64_t row_bytes = 4 * tables->room() * static_cast<int64_t>(sizeof(T)), lanes = fourier_ops().lanes(call.operands[0].dtype);
  auto out = std::make_shared<Prepared>();
  out->rows = row_bytes * lanes > fourier_tuning::side_by_side_bytes ? 1 : std::clamp<int64_t>(count_of_transforms(call.operands[0]), 1, lanes);
  out->scratch_of_worker = static_cast<size_t>((row_bytes * out->rows + 4 * fourier_tuning::gap_elements * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64);
  out->tables = std::move(tables);
  return out;
}

Resolved resolve(const Call& call) {
  const int64_t n = check_fourier(call);
  auto prepared = call.operands[0].dtype == ir::DType::f32 ? prepared_of<float>(call, n) : prepared_of<double>(call, n);
  return {static_cast<size_t>(call.workers->count()) * prepared->scratch_of_worker, prepared};
}

void run(const Call& call) {
  const auto& prepared = *static_cast<const Prepared*>(call.prepared);
  const TensorRef& first = call.operands[0];
  const int64_t count = count_of_transforms(first), groups = (count + prepared.rows - 1) / prepared.rows;
  if (count == 0) return;
  const TensorRef outer{nullptr, first.dtype, first.rank - 1, first.dims, nullptr};
  FourierRows all;
  all.tables = prepared.tables.get();
  all.dtype = first.dtype;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const TensorRef& t = call.operands[i];
    all.data[i] = t.data;
    all.step[i] = t.strides[t.rank - 1];
  }
  const int64_t tasks = std::clamp<int64_t>(numel(first) / fourier_tuning::task_elements, 1, std::min<int64_t>(groups, 4 * call.workers->count()));
  call.workers->run(tasks, [&](int64_t task, int worker) {
    FourierRows part = all;
    part.scratch = call.scratch + static_cast<size_t>(worker) * prepared.scratch_of_worker;
    for (int64_t group = groups * task / tasks; group < groups * (task + 1) / tasks; ++group) {
      part.rows = std::min(prepared.rows, count - group * prepared.rows);
      for (int64_t row = 0; row < part.rows; ++row) {
        int64_t at[max_rank] = {};
        coordinates(group * prepared.rows + row, outer, at);
        for (size_t i = 0; i < call.operands.size(); ++i) {
          part.first[i][row] = 0;
          for (int d = 0; d < outer.rank; ++d) part.first[i][row] += at[d] * call.operands[i].strides[d];
        }
      }
      fourier_ops().run(part);
    }
  });
}

}  // namespace

std::span<const RunKernel> fourier_cpu_kernels() {
  static constexpr RunKernel list[] = {{"fourier", load_fourier_of_one_axis, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
