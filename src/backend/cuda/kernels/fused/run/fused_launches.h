// The run-time half of fused bodies on CUDA: from resolved sizes to the kernel to start, its grid and its parameters. Starts
// nothing itself and knows neither graphs nor the driver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct FusedLaunch {
  struct Grid {
    uint32_t variant = 0;  // kernel name_variant
    uint32_t blocks = 0;   // 0: there is nothing to do
    uint32_t threads = 0;
    uint32_t shared = 0;   // bytes of dynamic shared memory
  };
  Grid aligned;                      // when every pointer allows it,
  Grid any;                          // else
  std::vector<uint32_t> alignment;   // bytes, of each operand's pointer
  std::vector<std::byte> parameters; // the kernel's struct; pointers are filled in by bind()

  // Writes the pointers (and the address where errors are reported, or 0) and says what to start.
  const Grid& bind(std::span<const TensorRef> operands, uint64_t status);
};

// Shared memory that generated kernels have besides what a launch asks for, at most.
inline constexpr size_t fused_static_shared = 4096;

// Data pointers are not read. `shared_block`: bytes of shared memory that a block of the device can have. Error (format) when the operands contradict the arguments or the domain, (unsupported) when they
// are larger than the kernels can count.
FusedLaunch resolve_fused_cuda(const FusedCudaArgs&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, size_t shared_block);

}  // namespace ingot::kernels
