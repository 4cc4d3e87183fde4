// A step on the local GPU, for tests that run the same step on the host, and to time it.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/run/gpu.h"

namespace ingot::backend::cuda {

// `text`: of the step's kernels, after prelude() and matrix_texts(); empty for a step of a library. Operands are on the GPU.
class GpuStep {
 public:
  GpuStep(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, std::vector<TensorRef> operands, std::span<const int64_t> sizes);
  void run(StreamHandle);
  // Records the step `times` times in sequence.
  std::unique_ptr<Recording> record(int times);
  void replay(const Recording&, StreamHandle stream);
  void wait() { stream_->wait(); }

 private:
  Compiled code_;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<GpuStream> stream_;
  std::shared_ptr<const void> constants_;
  std::vector<TensorRef> operands_;
  std::vector<int64_t> sizes_;
  const RunKernel* kernel_ = nullptr;
  Resolved resolved_;
  DeviceMemory scratch_;
  Call call_;
};

// With host tensors, which are all copied back. `shift`: offset in elements of each from an aligned address.
void run_on_gpu(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes,
                size_t shift);

// An answer with its step; it refers to the arguments of the question.
struct Taken {
  std::optional<Obstacle> obstacle;
  EmittedStep step;
};
inline Taken take(const GemmAnswer& a) { return {a.obstacle, a.obstacle ? EmittedStep{} : a.emit()}; }

// A step of all of ingot's own implementations that may compute the GEMM; `hopper`: also those for sm_90a. `tiles`: see GemmSite.
inline Taken own_gemm(const Gemm& g, const FusedBody& body, const std::vector<StridedLayout>& layouts, bool hopper, uint16_t tiles = all_tiles) {
  const GemmSiteAnswer found = gemm_site(g, body, layouts, hopper, tiles);
  if (found.site == nullptr) return {found.obstacle, {}};
  return {std::nullopt, whole_gemm(*found.site)};
}

std::vector<ir::Dim> dims_of(const std::vector<int64_t>&);
// The map of an image [n, h, w, c] to windows of r x r at height x width positions: rows (n, y, x), K (r, s, c).
ir::AffineMap windows_of(int64_t n, int64_t height, int64_t width, int64_t c, int64_t r, int64_t stride, int64_t pad);

}  // namespace ingot::backend::cuda
