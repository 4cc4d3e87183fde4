// Runs printed kernels on the host, to test their indexing and ordering without a GPU. The host's compiler compiles the text after a prelude in which threads
// are fibers, and asynchronous copies and products take effect as late or as early as the GPU might do them.
#pragma once
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/fused/fused_cases_test.h"
#include "backend/cuda/kernels/run/launches.h"
#include "kernels/fourier/run/fourier_args.h"

namespace ingot::backend::cuda {

// Empty, or the reason why printed kernels cannot run here (no compiler).
std::string emulation_missing();

// How to run a printed step: on the host, with either kind of matrix instructions and asynchronous work as early or as late as possible; or on the GPU.
enum class Where : uint8_t { early, late, early_groups, late_groups, gpu };
inline constexpr Where emulations[] = {Where::early, Where::late, Where::early_groups, Where::late_groups};

struct PrintedStep {
  EmittedStep step;
  std::string name, text;            // of its kernels; the text follows the matrix instructions
  std::vector<std::string> kernels;
  decltype(RunKernel::load) load;
  kernels::CudaLaunches (*launches)(const Call&, const kernels::CudaMachine&);
};
// Independent printed steps as one (Compiler::join), each with this many operands of which it writes the last ones.
struct PrintedPart {
  EmittedStep step;
  size_t writes;
  std::vector<HostTensor*> tensors;
};
// Runs them with the sizes in their steps.
void run_joined(std::span<const PrintedPart>, Where, size_t shift, int multiprocessors);
// `tensors`: the step's operands in order. `shift`: offset in elements of each from an aligned address. `multiprocessors`: of the emulated machine.
void run_printed(const PrintedStep&, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes, Where, size_t shift, int multiprocessors);

class Emulated {
 public:
  // `text`: device code without the backend's prelude and the machine's instructions. `warpgroups`: as on sm_90a.
  Emulated(const std::string& text, std::span<const std::string> kernels, bool warpgroups);
  ~Emulated();
  Emulated(const Emulated&) = delete;
  // Runs the launches on host memory. `late`: see above.
  void run(const kernels::CudaLaunches&, std::span<const TensorRef> operands, bool late) const;

 private:
  struct Folder {  // a new one, removed at the end
    std::string path;
    Folder();
    ~Folder();
  };
  static const std::string& machine(bool warpgroups);

  Folder folder_;
  std::map<std::string, uint32_t> clusters_;  // blocks in a cluster, by kernel
  void* library_ = nullptr;
};

// Transforms along the step's axes by the CPU's kernel, an axis at a time. Operands of transforms to real numbers along several axes are written over.
void transform_by_cpu(const kernels::FourierArgs&, const std::vector<TensorRef>& operands);

// The host's compiler takes seconds for the kernels of a case: one in `of` cases, or all with INGOT_TEST_ALL=1.
template <class Case>
std::vector<Case> some(std::vector<Case> cases, size_t of) {
  if (std::getenv("INGOT_TEST_ALL") != nullptr) return cases;
  for (size_t i = 0; i * of < cases.size(); ++i) std::swap(cases[i], cases[i * of]);
  cases.erase(cases.begin() + static_cast<ptrdiff_t>((cases.size() + of - 1) / of), cases.end());
  return cases;
}

// All matrix instructions and what is built on them.
std::string matrix_texts();
// The unit's text with its libraries, but without those of matrix_texts(), which the emulation has itself.
std::string text_with_libraries(const CodeUnit&);

}  // namespace ingot::backend::cuda
