// A kernel as the runtime uses it: load its constants once, resolve once per set of sizes, run often. Knows no device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "base/timing.h"
#include "ir/dtype.h"
#include "kernels/run/role.h"

namespace ingot::backend {
class Backend;
class Stream;
}  // namespace ingot::backend

namespace ingot::kernels {

// A strided tensor in memory, with every size known. Strides are in elements and may be 0 or negative. The runtime has
// checked that every element is inside its buffer.
struct TensorRef {
  std::byte* data = nullptr;
  ir::DType dtype = ir::DType::f32;
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;
};

inline constexpr int max_rank = 16;
// Bounds of what a step may ask for, far from 64-bit overflow: elements of a domain, elements along the indices of a map, and from where a guard may begin.
inline constexpr int64_t max_domain_elements = int64_t{1} << 42, max_map_extent = int64_t{1} << 40, max_guard_lower = int64_t{1} << 46;

// Elements of the outer axes: all but the last `inner`.
inline int64_t numel(const TensorRef& t, int inner = 0) {
  int64_t n = 1;
  for (int d = 0; d + inner < t.rank; ++d) n *= t.dims[d];
  return n;
}

struct Call {
  std::span<const TensorRef> operands;   // inputs first; see the kernel's x_args.h
  std::span<const int64_t> sizes;        // the step's sizes; see the kernel's x_args.h
  const void* constants = nullptr;       // the result of load()
  const void* prepared = nullptr;        // Resolved::state
  std::byte* scratch = nullptr;          // Resolved::scratch bytes, aligned like the backend's memory; contents undefined
  Workers* workers = nullptr;            // for kernels on the host
  const backend::Backend* backend = nullptr;  // for others: the backend that the kernel belongs to,
  backend::Stream* stream = nullptr;          // and the stream for its work; in resolve that of the run to come, or null
  const Timing* trial = nullptr;         // in resolve: the choice for its problem, in place of known timings
};

// A choice that a kernel has for one set of sizes and that can be timed.
struct Tunable {
  std::string machine, problem;          // as in Timing
  std::vector<std::string> choices;      // the first is used when nothing was timed
};

struct Resolved {
  size_t scratch = 0;
  std::shared_ptr<const void> state;     // for these sizes: blocking, merged loops
  // What a run takes here, estimated; infinite: the kernel cannot compute these sizes. Read only for steps with alternatives (plan::Step).
  double nanoseconds = 0;
};

struct RunKernel {
  std::string_view name;
  // Parses and verifies a step's constants when a plan is loaded. They are not trusted: Error (format) for anything invalid.
  std::shared_ptr<const void> (*load)(std::span<const std::byte> constants, size_t operands, size_t sizes);
  // Called once per set of sizes, with null data pointers. Checks the operands' dtypes, ranks and dims, so that run() stays
  // inside them. Error (format) if they do not fit.
  Resolved (*resolve)(const Call&);
  // May throw (an index out of range); never allocates.
  void (*run)(const Call&);
  // The choices of a call, which has what resolve gets. Null: the kernel has none.
  std::vector<Tunable> (*tunables)(const Call&) = nullptr;
};

}  // namespace ingot::kernels
