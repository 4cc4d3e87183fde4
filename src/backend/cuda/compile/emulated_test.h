// Printed kernels on the host, for tests of their indexing and of their order of events where no GPU is: the host's compiler takes the text behind a prelude
// in which threads are fibers, and in which copies and products that the GPU does on its own happen as late as they may, or as early.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::backend::cuda {

// Empty, or why printed kernels cannot run here (no compiler).
std::string emulation_missing();

// How a printed step is done: on the host, by either kind of matrix instructions, copies and products as early or as late as they may be; or on the GPU that is here.
enum class Where : uint8_t { early, late, early_groups, late_groups, gpu };
inline constexpr Where emulations[] = {Where::early, Where::late, Where::early_groups, Where::late_groups};

struct PrintedStep {
  EmittedStep step;
  std::string name, text;            // of its kernels, behind the texts of matrix instructions
  std::vector<std::string> kernels;
  decltype(RunKernel::load) load;
  kernels::CudaLaunches (*launches)(const Call&, const kernels::CudaMachine&);
};
// Tensors are those of the step in order. `shift`: elements by which each begins behind an aligned address. `multiprocessors`: of the machine that is emulated.
void run_printed(const PrintedStep&, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes, Where, size_t shift, int multiprocessors);

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
