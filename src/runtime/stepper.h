// A plan's programs on their device, step by step, for whoever looks at what each step writes (verify).
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
  // `device`: see place(). Error (invalid_input) when the plan has no values for its weights.
  Stepper(std::shared_ptr<const plan::Plan> plan, std::string_view device, int threads);
  const Placement& placement() const { return placement_; }
  // From now on steps are those of prepare, or of a function at these sizes; prepare's come first. `inputs`: each one's elements as the binding lies.
  void begin_prepare();
  void begin(size_t function, std::vector<int64_t> symbols, std::span<const std::vector<std::byte>> inputs);
  size_t steps() const { return loaded_.steps.size(); }
  // Returns when it is done.
  void run(size_t step);
  // The elements of a binding, which are `bytes`.
  std::vector<std::byte> read_binding(size_t binding, size_t bytes) const;
  // All bytes of a buffer that steps have among their operands; nothing where none touches it.
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
