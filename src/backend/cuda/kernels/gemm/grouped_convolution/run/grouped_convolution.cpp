#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution.h"

#include "backend/cuda/kernels/concurrent/run/part_launches.h"
#include "backend/cuda/kernels/gemm/grouped_convolution/run/grouped_convolution_args.h"
#include "backend/cuda/kernels/run/windows.h"
#include "backend/cuda/run/launch.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using Args = GroupedConvolutionArgs;

// The product of the sizes of these indices.
int64_t extent(std::span<const int64_t> sizes, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) {
    if (__builtin_mul_overflow(n, sizes[i], &n)) fail(Code::format, "the operands of a gemm_grouped_convolution step do not fit: extents");
  }
  return n;
}

}  // namespace

std::shared_ptr<const void> load_grouped_convolution(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto args = std::make_shared<Args>(parse_grouped_convolution(constants));
  check_window_counts(*args, "gemm_grouped_convolution", operands, sizes);
  return args;
}

CudaLaunches grouped_convolution_launches(const Call& call, const CudaMachine&) {
  const Args& a = *static_cast<const Args*>(call.constants);
  constexpr const char* step = "a gemm_grouped_convolution";
  std::vector<int64_t> of_b(call.sizes.begin(), call.sizes.begin() + a.batch), of_body = of_b;
  const int64_t width = call.sizes[a.line()], columns = call.sizes[a.last()];
  of_b.insert(of_b.end(), {extent(call.sizes, a.kept, a.indices()), columns});
  of_body.insert(of_body.end(), {extent(call.sizes, a.batch, a.last()), columns});
  check_window_operands(a, step, of_b, of_body, call);
  const int64_t single = divided_up(width, a.tile) * (columns / a.vector) * a.lanes;
  WindowThreads threads{a.matrices ? divided_up(width, Args::rows_of_matrix) * 32 : single, single, {}};
  for (const TensorRef& x : call.operands) {
    uint32_t& axes = threads.vector_axes.emplace_back(0);
    for (int axis = 0; axis < x.rank; ++axis) axes |= static_cast<uint32_t>(x.strides[axis] == 1) << axis;
  }
  return window_launches(a, step, threads, call);
}

extern const PartLaunches gemm_grouped_convolution_part;
const PartLaunches gemm_grouped_convolution_part{load_grouped_convolution, grouped_convolution_launches};

std::span<const RunKernel> gemm_grouped_convolution_cuda_kernels() {
  static constexpr RunKernel list[] = {{"gemm_grouped_convolution", load_grouped_convolution, resolved<grouped_convolution_launches>, run_launches}};
  return list;
}

}  // namespace ingot::kernels
