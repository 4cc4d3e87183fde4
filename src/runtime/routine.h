// Runs a function with regions (plan::Region): calls its straight functions in order, holds the values between them, and reads sizes from data.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/executor.h"
#include "runtime/profile.h"
#include "runtime/region_values.h"
#include "runtime/run_blocks.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// Gives memory for a result whose sizes are read from data. `output`: its index among the results. The device must be able to access it.
using OutputMemory = std::function<std::byte*(size_t output, std::span<const int64_t> dims)>;

class Routine {
 public:
  Routine(const Weights&, size_t function);

  // What a run uses of its session.
  struct Run {
    const Memory& memory;
    Workers& workers;
    backend::Stream& stream;
    Allocator& allocator;        // of memory that kernels access
    CopyStream* copy_stream;     // copies streamed weights; null if there are none
    const OutputMemory& output;  // may be empty
    bool recording;
    bool marks;
  };
  // `bindings`: the data of each binding. A result whose sizes are read from data may have none: then `output` allocates it; otherwise it has `room` bytes.
  // `symbols`: those known from inputs; those read from data have the values that bound() gave them.
  void run(std::span<std::byte* const> bindings, std::span<const size_t> room, std::span<const int64_t> symbols, const Run&);
  // The dims of a result after a run.
  std::span<const int64_t> dims(size_t binding) const { return values_[binding].dims; }

  // True if the sizes of a binding are read from data.
  bool is_open(size_t binding) const { return values_.open_sizes().open[binding]; }
  // Sets the symbols that are read from data to their upper bounds. A binding whose sizes have no bound is not is_bounded().
  void bound(std::vector<int64_t>& symbols) const { values_.open_sizes().bound(symbols); }
  bool is_bounded(size_t binding) const { return values_.open_sizes().bounded[binding]; }

  // Frees the memory that is kept between runs.
  void give_back() noexcept;
  void forget_copies();  // see Executor::forget_copies
  // Number of resolve() calls.
  size_t resolutions() const;
  // Steps of the last run with marks, in order.
  const std::vector<Timed>& timed() const { return timed_; }

 private:
  // A function that a region calls.
  struct Callee {
    std::unique_ptr<Executor> straight;
    std::unique_ptr<Routine> routine;
  };
  void make_room(uint32_t value, const Run&);
  void call(const plan::Call&, Callee&, const Run&);
  void loop(const plan::Region&, std::vector<Callee>&, const Run&);
  bool is_true(uint32_t value, const Run&) const;
  void read(const plan::Region::Read&, const Run&);

  const plan::Plan& plan_;
  const plan::Function& f_;
  std::vector<std::vector<Callee>> callees_;  // per region and call
  RegionValues values_;
  RunBlocks blocks_;  // of the straight functions, which run one after another
  std::vector<Timed> timed_;
};

}  // namespace ingot::runtime
