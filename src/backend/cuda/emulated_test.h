// Printed kernels on the host, for tests of their indexing and of their order of events where no GPU is: the host's compiler takes the text behind a prelude
// in which threads are fibers, and in which copies and products that the GPU does on its own happen as late as they may, or as early.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "kernels/launches_cuda_run.h"

namespace ingot::backend::cuda {

// Empty, or why printed kernels cannot run here (no compiler).
std::string emulation_missing();

class Emulated {
 public:
  // `text`: device code as it stands behind the backend's prelude, without the instructions of the machine. `parameters`: the struct that its kernels take.
  // `warpgroups`: as on sm_90a.
  Emulated(const std::string& text, std::span<const std::string> kernels, const std::string& parameters, bool warpgroups);
  ~Emulated();
  Emulated(const Emulated&) = delete;
  // Does the launches on host memory. `late`: see above.
  void run(const kernels::CudaLaunches&, std::span<const TensorRef> operands, bool late) const;

 private:
  void* library_ = nullptr;
  std::string folder_;
};

}  // namespace ingot::backend::cuda
