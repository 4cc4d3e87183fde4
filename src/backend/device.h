// The run-time half of a backend: what the runtime calls to run a step. Knows no graphs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/parallel.h"
#include "ir/dtype.h"

namespace ingot::backend {

// A strided tensor in memory, with every size known. Strides are in elements and may be 0 or negative; the runtime
// has checked that every element lies inside its buffer.
struct TensorRef {
  std::byte* data = nullptr;
  ir::DType dtype = ir::DType::f32;
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;
};

struct Call {
  std::span<const TensorRef> operands;   // inputs first, as the kernel's x_args.h says
  std::span<const int64_t> sizes;        // resolved size expressions, meaning as the kernel's x_args.h says
  const void* constants = nullptr;       // what load() returned
  const void* prepared = nullptr;        // what resolve() returned in Resolved::state
  std::byte* scratch = nullptr;          // Resolved::scratch bytes, 64-byte aligned; contents undefined
  Workers* workers = nullptr;
};

struct Resolved {
  size_t scratch = 0;
  std::shared_ptr<const void> state;     // per set of sizes: blocking, coalesced loops
};

// One kernel as the runtime sees it.
struct RunKernel {
  std::string_view name;
  // Parses and verifies a step's constants once, when a plan is loaded. Untrusted: anything wrong is an Error (format).
  std::shared_ptr<const void> (*load)(std::span<const std::byte> constants, size_t operands, size_t sizes);
  // Once per set of sizes (data pointers are null): checks dtypes, ranks and dims of the operands against each other
  // so that run() cannot leave them. Error (format) when they do not fit.
  Resolved (*resolve)(const Call&);
  // May throw (an index out of range); never allocates.
  void (*run)(const Call&);
};

// The kernels of the CPU backend by name; null when unknown. The list is in cpu/device.cpp.
const RunKernel* find_cpu_kernel(std::string_view name);

// The most this machine does with these workers: float multiply-adds in registers (2 operations each) and reading memory.
struct MachineLimits {
  double flops = 0, bytes_per_second = 0;
};
MachineLimits measure_limits(Workers& workers, double seconds);

}  // namespace ingot::backend
