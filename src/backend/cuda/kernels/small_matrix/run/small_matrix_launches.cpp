#include "backend/cuda/kernels/small_matrix/run/small_matrix_launches.h"

#include <cstddef>

#include "backend/cuda/kernels/small_matrix/run/small_matrix_cuda_args.h"
#include "backend/cuda/run/launch.h"
#include "kernels/small_matrix/run/small_matrix_checks.h"

namespace ingot::kernels {

CudaLaunches small_matrix_cuda_launches(const Call& call, const CudaMachine&) {
  check_small_matrix(call);
  const auto& args = *static_cast<const SmallMatrixArgs*>(call.constants);
  const TensorRef& a = call.operands[0];
  const int batch = a.rank - 2;
  JoinedAxes axes(4);
  for (int d = 0; d < batch; ++d) {
    std::vector<int64_t> steps(4, 0);
    for (size_t i = 0; i < call.operands.size(); ++i) steps[i] = call.operands[i].strides[d];
    axes.add(a.dims[d], steps);
  }
  SmallMatrixCudaParameters p{};
  std::vector<CudaLaunch::Pointer> pointers;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    const TensorRef& t = call.operands[i];
    const int of = matrix_axes(args, i);
    if (of == 2) p.row[i] = t.strides[batch];
    if (of > 0) p.column[i] = t.strides[batch + of - 1];
    pointers.push_back({CudaLaunch::Pointer::operand, offsetof(SmallMatrixCudaParameters, at) + i * sizeof p.at[0], i});
  }
  p.count = axes.points;
  p.columns = args.inputs() == 2 ? call.operands[1].dims[batch + 1] : args.columns;
  p.axes = axes.get<4>();
  CudaLaunches list;
  if (p.count == 0) return list;
  list.add(small_matrix_cuda_name(args, a.dtype), divided_up(p.count, small_matrix_cuda_tuning::threads / matrix_group(args)), small_matrix_cuda_tuning::threads, p, pointers);
  list.overlap();
  return list;
}

std::span<const RunKernel> small_matrix_cuda_kernels() {
  static constexpr RunKernel list[] = {{"small_matrix", load_small_matrix, resolved<small_matrix_cuda_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
