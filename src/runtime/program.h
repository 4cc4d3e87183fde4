// A function of a plan, ready to run: its kernels and constants, and its resolved steps for each set of sizes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/run/device.h"
#include "base/buffer.h"
#include "base/parallel.h"
#include "plan/plan.h"

namespace ingot::runtime {

// Kernels and constants of a function. All sessions share them.
struct LoadedFunction {
  const plan::Function* function = nullptr;
  const plan::Program* program = nullptr;
  const backend::Backend* backend = nullptr;
  struct Step {
    const backend::RunKernel* kernel;
    std::shared_ptr<const void> constants;
  };
  std::vector<Step> steps;
  std::vector<plan::SymbolSource> symbols;
  size_t inputs = 0, outputs = 0, states = 0;
  bool writes = false;          // writes a state, or an input's memory
};
struct Streaming;
class Lane;
// Allocates memory; the error names `what` if there is none.
MemoryBlock reserve(size_t bytes, Allocator&, std::string_view what);

// Error (format) names the step whose kernel or constants are wrong.
LoadedFunction load_function(const plan::Function&, const plan::Program&, const backend::Backend& = backend::cpu_backend());

// A tensor of the caller, in memory of the host or of the device.
struct HostTensor {
  void* data = nullptr;
  ir::DType dtype = ir::DType::f32;
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;  // in elements; null = row-major
};

// All that follows from the sizes. Only the operands' data pointers change afterwards.
struct Resolved {
  const plan::Program* program = nullptr;
  std::vector<int64_t> symbols;
  std::vector<int64_t> sizes;                 // value of each size expression
  std::vector<int64_t> storage;               // dims and strides of all operands, concatenated
  struct Patch {
    uint32_t step, operand, binding;
    int64_t offset;                           // in bytes
  };
  struct Step {
    std::vector<backend::TensorRef> operands;
    std::vector<int64_t> sizes;
    backend::Resolved kernel;
  };
  std::vector<Step> steps;
  std::vector<Patch> patches;
  struct ArenaOperand {
    uint32_t step, operand;
    size_t offset;
  };
  std::vector<ArenaOperand> in_arena;
  struct WeightOperand {
    uint32_t step, operand, index;            // index in Plan::weights, or in the target's derived tensors
    bool derived;
    int64_t offset;                           // in bytes
  };
  std::vector<WeightOperand> of_weights;
  std::vector<ArenaOperand> in_ring;          // weights that are streamed: offset in the ring
  std::shared_ptr<const Streaming> streaming;  // of the weights that the steps point at; null: none is streamed
  size_t arena_bytes = 0, scratch_bytes = 0;
  std::vector<std::vector<int64_t>> binding_dims;
};

// Addresses of the weights. Tables of the same number have the same addresses.
struct Memory {
  uint64_t number = 0;
  std::vector<const std::byte*> weights;   // per Plan::weights; null = not there
  std::vector<std::byte*> derived;         // per Plan::derived
  std::vector<size_t> weight_bytes, derived_bytes;
  // Of weights that are not on the device: null above. Null where all are.
  std::shared_ptr<const Streaming> streaming;
};

// Bytes of all operands of a step, each counted once, without broadcast axes.
int64_t bytes_moved(const Resolved::Step&);
// Resolves the function at these symbols. Its steps get the weights' addresses from `memory`.
std::unique_ptr<Resolved> resolve(const LoadedFunction&, const plan::Plan&, const Memory& memory, std::vector<int64_t> symbols, Workers&);
// Sets the weights' addresses in the steps; true if one changed. Sizes do not depend on addresses and stay.
bool point_at_weights(Resolved&, const Memory&);
// Memory of a run, of the resolved sizes; `ring`: of Streaming::ring_bytes.
struct RunMemory {
  std::byte *arena, *scratch, *ring = nullptr;
};
// Where the steps find bindings, arena and streamed weights from now on.
void point(Resolved&, std::span<std::byte* const> bindings, const RunMemory&);
void run_step(const LoadedFunction&, const Resolved&, size_t step, std::byte* scratch, Workers&, backend::Stream&);
// Runs the steps. `bindings`: data of every binding. `lane`: in which streamed weights come; null where there are none.
// `marks`: the stream notes the time before the first step and after each.
void run(const LoadedFunction&, Resolved&, std::span<std::byte* const> bindings, const RunMemory&, Workers&, backend::Stream&, Lane* lane = nullptr, bool marks = false);
// Of arena and scratch at the usual sizes; 0 where these do not go together.
size_t usual_bytes(const LoadedFunction&, const plan::Plan&, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, Workers&);

}  // namespace ingot::runtime
