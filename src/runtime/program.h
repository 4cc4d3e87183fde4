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
  const plan::Plan* plan = nullptr;
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
class CopyStream;
// The room that `bytes` of data take in device memory: kernels may read 64 bytes after the end, and the next data is aligned.
inline size_t padded_bytes(size_t bytes, size_t alignment) { return (bytes + 64 + alignment - 1) / alignment * alignment; }
// Allocates memory; the error names `what` if there is none.
MemoryBlock reserve(size_t bytes, Allocator&, std::string_view what);

// Error (format) names the step whose kernel or constants are wrong.
LoadedFunction load_function(const plan::Plan&, const plan::Function&, const plan::Program&, const backend::Backend& = backend::cpu_backend());

// A tensor of the caller, in memory of the host or of the device.
struct HostTensor {
  void* data = nullptr;
  ir::DType dtype = ir::DType::f32;
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;  // in elements; null = row-major
};

// Everything that depends on the sizes. Only the operands' data pointers change afterwards.
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
  std::vector<ArenaOperand> in_ring;          // streamed weights: offset in the ring
  std::shared_ptr<const Streaming> streaming;  // Memory::streaming of the weights that the steps read; null: none is streamed
  size_t arena_bytes = 0, scratch_bytes = 0;
  std::vector<std::vector<int64_t>> binding_dims;
};

// The addresses of the weights. Two tables with the same number have the same addresses.
struct Memory {
  uint64_t number = 0;
  std::vector<const std::byte*> weights;   // per Plan::weights; null = not there
  std::vector<std::byte*> derived;         // per Plan::derived
  std::vector<size_t> weight_bytes, derived_bytes;
  std::shared_ptr<const Streaming> streaming;  // of the weights that are not on the device, whose addresses above are null; null: all are there
};

// Bytes of all operands of a step, each counted once, without broadcast axes.
int64_t bytes_moved(const Resolved::Step&);
// Resolves the function at these symbols. Its steps get the weights' addresses from `memory`.
std::unique_ptr<Resolved> resolve(const LoadedFunction&, const plan::Plan&, const Memory& memory, std::vector<int64_t> symbols, Workers&, backend::Stream* stream = nullptr);
// True if the operand is a streamed weight, whose address is in the ring.
bool is_streamed(const Resolved&, const Resolved::WeightOperand&);
// Sets the weights' addresses in the steps; true if one changed, or the streamed weights did. Sizes do not depend on addresses and stay.
bool point_at_weights(Resolved&, const Memory&);
// The memory of a run, of the resolved sizes. `ring` has Streaming::ring_bytes.
struct RunMemory {
  std::byte *arena, *scratch, *ring = nullptr;
};
// Sets the addresses of bindings, arena and streamed weights in the steps.
void point(Resolved&, std::span<std::byte* const> bindings, const RunMemory&);
void run_step(const LoadedFunction&, const Resolved&, size_t step, std::byte* scratch, Workers&, backend::Stream&);
// Runs the steps. `bindings`: the data of each binding. `copy_stream`: copies streamed weights; null if there are none. `marks`: the stream notes the time before the
// first step and after each.
void run(const LoadedFunction&, Resolved&, std::span<std::byte* const> bindings, const RunMemory&, Workers&, backend::Stream&, CopyStream* copy_stream = nullptr,
         bool marks = false);
// Bytes of arena and scratch at the usual sizes; 0 if these sizes contradict each other.
size_t usual_bytes(const LoadedFunction&, const plan::Plan&, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, Workers&);

}  // namespace ingot::runtime
