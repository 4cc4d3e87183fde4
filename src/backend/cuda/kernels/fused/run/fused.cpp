// "fused" on CUDA: picks the kernel that fits the sizes, and launches it.
#include "backend/cuda/kernels/concurrent/run/part_launches.h"
#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/fused/run/fused_launches.h"
#include "backend/cuda/run/gpu.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::cuda;

// The launch of a step for one set of sizes, in one session.
struct Prepared {
  FusedLaunch launch;
  Function aligned, any;
};

Resolved resolve(const Call& call) {
  const auto& args = *static_cast<const FusedCudaArgs*>(call.constants);
  const auto& gpu = static_cast<const Gpu&>(*call.backend);
  auto out = std::make_shared<Prepared>();
  out->launch = resolve_fused_cuda(args, call.operands, call.sizes, gpu.device()->properties().shared_block);
  auto function = [&](const FusedLaunch::Grid& g) { return g.blocks == 0 ? Function() : gpu.function(g.kernel(args)); };
  out->aligned = function(out->launch.aligned);
  if (out->launch.any) out->any = function(*out->launch.any);
  return {0, out};
}

void run(const Call& call) {
  auto& prepared = *static_cast<Prepared*>(const_cast<void*>(call.prepared));  // of this session only
  auto& stream = static_cast<GpuStream&>(*call.stream);
  const FusedLaunch::Grid& grid = prepared.launch.bind(call.operands, stream.status());
  if (grid.blocks == 0) return;
  const Function& f = &grid == &prepared.launch.aligned ? prepared.aligned : prepared.any;
  f.launch({grid.blocks, grid.threads, grid.shared, stream.may_overlap()}, prepared.launch.parameters, stream.handle());
}

}  // namespace

extern const PartLaunches fused_part;
const PartLaunches fused_part{load_fused_cuda, fused_cuda_launches};

std::span<const RunKernel> fused_cuda_kernels() {
  static constexpr RunKernel list[] = {{"fused", load_fused_cuda, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
