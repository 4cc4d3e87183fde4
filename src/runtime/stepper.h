// Runs a plan's programs on their device step by step, so that `verify` can read what each step writes.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/placement.h"
#include "runtime/program.h"

namespace ingot::runtime {

class Stepper {
 public:
  // `device`: see place(). Error (invalid_input) if the plan has no values for its weights.
  Stepper(std::shared_ptr<const plan::Plan> plan, std::string_view device, int threads);
  const Placement& placement() const { return placement_; }
  // Starts prepare, or a function at these sizes; later calls refer to its steps. Prepare must come first. `inputs`: the
  // elements of each input in its binding's axis order.
  void begin_prepare();
  void begin(size_t function, std::vector<int64_t> symbols, std::span<const std::vector<std::byte>> inputs);
  size_t steps() const { return loaded_.steps.size(); }
  // Runs a step and waits for it.
  void run(size_t step);
  // The first `bytes` bytes of a binding.
  std::vector<std::byte> read_binding(size_t binding, size_t bytes) const;
  // All bytes of a buffer that is an operand of some step; empty otherwise.
  std::vector<std::byte> read(plan::BufferId buffer) const;

 private:
  void start(const plan::Function&, const plan::Program&, std::vector<int64_t> symbols);
  MemoryBlock block(size_t bytes, std::string_view what) const;
  MemoryBlock filled(std::span<const std::byte> bytes, std::string_view what) const;

  std::shared_ptr<const plan::Plan> plan_;
  Placement placement_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<backend::Stream> stream_;
  std::vector<MemoryBlock> weights_, bindings_;
  MemoryBlock derived_, arena_, scratch_;
  Memory memory_;
  LoadedFunction loaded_;
  std::unique_ptr<Resolved> resolved_;
  struct Place {
    const std::byte* data = nullptr;
    size_t bytes = 0;
  };
  std::vector<Place> places_;  // per buffer
};

}  // namespace ingot::runtime
