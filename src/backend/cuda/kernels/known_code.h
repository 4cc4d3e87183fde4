// The part of a step's code that its launches use, if all sizes are known. Lists of launches are pure functions of sizes, so no GPU is needed to know it.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/kernels/run/launches.h"
#include "backend/site.h"

namespace ingot::backend::cuda {

// A step's operands and sizes as the runtime will pass them, without memory.
class KnownCall {
 public:
  // These are false if a size or stride is not known.
  bool add(const StridedLayout&, ir::DType);
  bool add(const ir::Dims& sizes);
  // Refers to this object.
  kernels::Call call(const void* constants);
  const std::vector<kernels::TensorRef>& operands();

 private:
  std::vector<std::vector<int64_t>> numbers_;  // dims and strides of each operand
  std::vector<ir::DType> types_;
  std::vector<int64_t> sizes_;
  std::vector<kernels::TensorRef> refs_;
};

// Of Hopper's GPUs.
inline constexpr int hoppers_multiprocessors[] = {78, 114, 132};

// Adds the kernels of these launches: also those for any address, if an operand may be at one.
void add_kernels(const kernels::CudaLaunches&, const Site&, std::set<std::string>& used);

}  // namespace ingot::backend::cuda
