// A function with regions (plan::Region): its straight functions one after another, the values between them, and the sizes that are read on the way.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/executor.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// Memory for a result whose size is read from data: its number among the results, and its sizes. The device reaches it.
using OutputMemory = std::function<std::byte*(size_t output, std::span<const int64_t> dims)>;

// What a step did in a run that was timed.
struct Timed {
  const LoadedFunction* function;
  size_t step;
  int64_t nanoseconds, bytes;
  std::vector<int64_t> sizes;
};
// Adds the steps that the stream has timed since it was asked last.
void note_times(const Executor&, backend::Stream&, std::vector<Timed>& out);

class Routine {
 public:
  Routine(const Weights&, size_t function);

  // What a run needs of its session.
  struct Run {
    const Memory& memory;
    Workers& workers;
    backend::Stream& stream;
    Allocator& allocator;        // of what kernels read and write
    Lane* lane;                  // in which streamed weights come
    const OutputMemory& output;  // may be empty
    bool recording;
    bool marks;
  };
  // `bindings`: data of every binding. A result whose size is read from data may have none, where `output` gives it, or `room` bytes.
  // `symbols`: those that inputs give, and what bound() made of the others, which are read.
  void run(std::span<std::byte* const> bindings, std::span<const size_t> room, std::span<const int64_t> symbols, const Run&);
  // Sizes of a result after a run.
  std::span<const int64_t> dims(size_t binding) const { return slots_[binding].dims; }

  // Whether the sizes of a binding are read from data.
  bool is_open(size_t binding) const { return open_[binding]; }
  // Sets the symbols that are read from data to the most they can be; false for each binding without such a bound.
  void bound(std::vector<int64_t>& symbols) const;
  bool is_bounded(size_t binding) const { return bounded_[binding]; }

  // Gives back the memory that is kept from run to run.
  void give_back() noexcept;
  // How often sizes were resolved.
  size_t resolutions() const;
  // Of the last run with marks, in order.
  const std::vector<Timed>& timed() const { return timed_; }

 private:
  // What a call runs.
  struct Callee {
    std::unique_ptr<Executor> straight;
    std::unique_ptr<Routine> routine;
  };
  struct Slot {
    std::byte* data = nullptr;
    size_t room = 0;
    std::vector<int64_t> dims;
    uint32_t block = UINT32_MAX;  // of blocks_; of values alone
  };
  void place_blocks();
  void evaluate_sizes();
  void set_dims(uint32_t value);
  size_t bytes_of(uint32_t value) const;
  ir::DType dtype_of(uint32_t value) const;
  void make_room(uint32_t value, const Run&);
  void call(const plan::Call&, Callee&, const Run&);
  void loop(const plan::Region&, std::vector<Callee>&, const Run&);
  bool is_true(uint32_t value, const Run&) const;
  void read(const plan::Region::Read&, const Run&);

  const plan::Plan& plan_;
  const plan::Function& f_;
  std::vector<std::vector<Callee>> callees_;  // per region and call
  std::vector<bool> open_, bounded_;          // per binding
  std::vector<int64_t> symbols_, sizes_;
  std::vector<Slot> slots_;                   // per value
  std::vector<MemoryBlock> blocks_;           // shared by values that are never needed at once
  MemoryBlock arena_, scratch_, ring_;
  std::vector<Timed> timed_;
};

}  // namespace ingot::runtime
