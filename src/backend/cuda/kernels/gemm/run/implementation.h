// The implementations of a GEMM as the runtime uses them. Each has a folder and a line in implementations.def.
#pragma once
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/cuda/kernels/gemm/run/gemm_call.h"
#include "backend/cuda/run/launch.h"

namespace ingot::kernels {

// What a GEMM's cost depends on. With open sizes: the usual ones.
struct GemmSizes {
  int64_t m = 0, n = 0, k = 0;
  bool floats = false, through_map = false;
  double slower = 1;  // than an H200's matrix instructions for halves, or TF32 of floats: those that are used here
  double reading = 0;  // nanoseconds that B takes from memory. In models of many layers no cache keeps it; 0 at run time, where no choice depends on it
  bool has_tiles = false;  // the GPU has tiles of groups of warps for this type and layout of B
  int64_t experts = 1;     // matrices, among which the rows are shared
  bool batches = false;  // the library would multiply batches of few rows, or on several axes, one by one
};

struct GemmImplementation {
  std::string_view kernel;  // RunKernel::name
  // Its own arguments; null if it has none. Error (format).
  std::shared_ptr<const void> (*parse)(std::span<const std::byte>, const GemmArgs&);
  // nullopt: it cannot compute the call.
  std::optional<CudaLaunches> (*launches)(const GemmCall&, const void* args);
  double (*cost)(const GemmSizes&);  // nanoseconds
  bool of_experts = false;           // it computes products of experts, which have row ends, and no others
  bool of_packed = false;            // it reads a B that is packed, and no other
};
// A launch, and the longer of two: so many times the work of tiles, or reading B.
double cost_of_work(double times, const GemmSizes&);
bool fills_tiles_of_library(const GemmSizes&);  // floats with long sums, whose columns fill the tiles of cuBLASLt
double cost_of_library(const GemmSizes&);  // cuBLASLt's
// All, in the order of implementations.def.
std::span<const GemmImplementation* const> gemm_implementations();

// A step's arguments, and those of the implementations that may compute it here.
struct LoadedGemm {
  struct One {
    const GemmImplementation* implementation;
    std::shared_ptr<const void> args;
  };
  GemmArgs args;
  std::vector<One> implementations;
};
// RunKernel::load of one implementation, or of all that the step has; the result is a LoadedGemm.
std::shared_ptr<const void> load_gemm(const GemmImplementation&, std::span<const std::byte> constants, size_t operands, size_t sizes);
std::shared_ptr<const void> load_gemm_cuda(std::span<const std::byte> constants, size_t operands, size_t sizes);
// The launches of the cheapest one of those loaded; CudaLaunches::nanoseconds is infinite if none can compute the call.
CudaLaunches gemm_cuda_launches(const Call&, const CudaMachine&);
// The name of the kernel that gemm_cuda_launches takes; empty: none.
std::string_view gemm_cuda_choice(const Call&, const CudaMachine&);

}  // namespace ingot::kernels
