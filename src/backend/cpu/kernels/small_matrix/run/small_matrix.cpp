// Linear algebra of small matrices on the CPU: each lane of a vector has a matrix.
#include <algorithm>

#include "backend/cpu/kernels/small_matrix/run/tile_small_matrix.h"
#include "backend/cpu/kernels/small_matrix/run/tuning.h"
#include "backend/cpu/run/isa.h"
#include "kernels/run/elements.h"
#include "kernels/small_matrix/run/small_matrix_checks.h"

namespace ingot::kernels {

namespace {

const MatrixOps& matrix_ops() {
  static const MatrixOps& chosen = INGOT_TABLES(matrix_ops).best();
  return chosen;
}

size_t scratch_of_worker(const Call& call) { return (matrix_ops().scratch_bytes(*static_cast<const SmallMatrixArgs*>(call.constants)) + 63) / 64 * 64; }

Resolved resolve(const Call& call) {
  check_small_matrix(call);
  return {static_cast<size_t>(call.workers->count()) * scratch_of_worker(call), nullptr};
}

void run(const Call& call) {
  const auto& args = *static_cast<const SmallMatrixArgs*>(call.constants);
  const MatrixOps& ops = matrix_ops();
  const TensorRef& a = call.operands[0];
  const int batch = a.rank - 2, lanes = ops.lanes(a.dtype);
  const int64_t count = count_of_matrices(a), vectors = (count + lanes - 1) / lanes, columns = args.inputs() == 2 ? call.operands[1].dims[batch + 1] : 0;
  if (count == 0) return;
  const TensorRef outer{nullptr, a.dtype, batch, a.dims, nullptr};
  MatricesOfVector all;
  all.args = args;
  all.dtype = a.dtype;
  all.columns = columns;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const TensorRef& t = call.operands[i];
    const int axes = matrix_axes(args, i);
    all.data[i] = t.data;
    all.row[i] = axes == 2 ? t.strides[batch] : 0;
    all.column[i] = axes == 2 ? t.strides[batch + 1] : axes == 1 ? t.strides[batch] : 0;
  }
  const int64_t work = vectors * args.rows * args.columns * (args.columns + columns);
  const int64_t tasks = std::clamp<int64_t>(work / small_matrix_tuning::work_of_task, 1, std::min<int64_t>(std::max<int64_t>(vectors, 1), 4 * call.workers->count()));
  call.workers->run(tasks, [&](int64_t task, int worker) {
    MatricesOfVector m = all;
    m.scratch = call.scratch + static_cast<size_t>(worker) * scratch_of_worker(call);
    const int64_t begin = vectors * task / tasks;
    int64_t at[max_rank] = {};
    coordinates(begin * lanes, outer, at);
    for (int64_t v = begin; v < vectors * (task + 1) / tasks; ++v) {
      m.count = static_cast<int>(std::min<int64_t>(lanes, count - v * lanes));
      for (int lane = 0; lane < lanes; ++lane) {
        for (size_t i = 0; i < call.operands.size(); ++i) {
          m.first[i][lane] = 0;
          for (int d = 0; d < batch; ++d) m.first[i][lane] += at[d] * call.operands[i].strides[d];
          if (lane >= m.count) m.first[i][lane] = m.first[i][0];
        }
        // The next matrix.
        for (int d = batch - 1; d >= 0 && ++at[d] == a.dims[d]; --d) at[d] = 0;
      }
      ops.run(m);
    }
  });
}

}  // namespace

std::span<const RunKernel> small_matrix_cpu_kernels() {
  static constexpr RunKernel list[] = {{"small_matrix", load_small_matrix, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
