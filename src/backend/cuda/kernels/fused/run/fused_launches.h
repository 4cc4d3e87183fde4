// From resolved sizes to the kernel to launch, its grid and its parameters. Launches nothing itself, and knows neither graphs nor the driver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/cuda/kernels/fused/run/fused_args.h"
#include "backend/cuda/kernels/run/launches.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels {

struct FusedLaunch {
  struct Grid {
    uint32_t variant = 0;
    uint32_t blocks = 0;   // 0: nothing to do
    uint32_t threads = 0;
    uint32_t shared = 0;   // bytes of dynamic shared memory
    std::string kernel(const FusedCudaArgs&) const;  // name_variant
  };
  Grid aligned;                      // if all pointers are aligned,
  std::optional<Grid> any;           // otherwise; nullopt: the plan's memory is aligned, and there is no kernel for other addresses
  std::vector<uint32_t> alignment;   // in bytes, per operand's pointer
  std::vector<std::byte> parameters; // the kernel's struct; bind() fills in the pointers

  // Writes the pointers (and the address for errors, or 0) and returns the grid to launch. Error (format) if there is no kernel for an address.
  const Grid& bind(std::span<const TensorRef> operands, uint64_t status);
};

// Data pointers are not read. `shared_block`: bytes of shared memory that a block of the device can have. Error (format) if the operands contradict the
// constants or the domain, (unsupported) if they are too large for the kernels' indices.
FusedLaunch resolve_fused_cuda(const FusedCudaArgs&, std::span<const TensorRef> operands, std::span<const int64_t> sizes, size_t shared_block);

// RunKernel::load; the result is a FusedCudaArgs.
std::shared_ptr<const void> load_fused_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
// The same launch of a step that runs together with others, with kernels for any number of rows that keep none in shared memory.
CudaLaunches fused_cuda_launches(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
