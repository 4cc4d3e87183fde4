// Runs a session's function in its stream: a straight one at once, one with regions part by part.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/held_weights.h"
#include "runtime/profile.h"
#include "runtime/routine.h"
#include "runtime/run_blocks.h"

namespace ingot::runtime {

class Runner {
 public:
  struct Settings {
    Allocator* run_memory = nullptr;  // each run allocates its memory from it and frees it; null: memory is kept between runs
    bool recording = true;            // repeated work on a GPU is recorded as CUDA graphs
    bool profiling = false;           // each step is measured
  };
  // The data of each binding, and what a function with regions needs besides: see Routine.
  struct Call {
    std::span<std::byte* const> bindings;
    std::span<const size_t> room;
    std::span<const int64_t> symbols;
    const OutputMemory& late;
  };

  Runner(const Weights&, size_t function, const Threads& threads);
  backend::Stream& stream() const { return *stream_; }
  Settings& settings() { return settings_; }
  // The function as resolved for these symbols; null if it was never resolved or was dropped.
  Resolved* find(std::span<const int64_t> symbols, const Memory& memory) { return executor_.find(symbols, memory); }
  Resolved& resolve(const std::vector<int64_t>& symbols, const Memory& memory) { return executor_.resolve(symbols, memory, *workers_, *stream_); }
  // Makes room for runs at these sizes, if memory is kept between runs.
  void fit(const Resolved&, size_t ring, Allocator& from);
  // At the sizes that were found or resolved last. Adds all work to the stream.
  void run(const Call&, HeldWeights&, Allocator& from);

  // Of a function with regions; null: it has none. Sizes of results may be read from data.
  const Routine* routine() const { return routine_.get(); }
  bool is_open(size_t binding) const { return routine_ != nullptr && routine_->is_open(binding); }
  // Of the last sizes; null: there were none.
  const Resolved* last() const { return executor_.last(); }
  size_t kept_sizes() const { return executor_.kept(); }
  // Number of resolve() calls.
  size_t resolutions() const { return routine_ != nullptr ? routine_->resolutions() : executor_.resolutions(); }
  size_t arena_bytes() const { return blocks_.arena_bytes(); }
  // True if the caller recorded the last run into a graph of its own.
  bool recorded_by_caller() const { return recorded_by_caller_; }
  // The memory of the last run: it is the caller's recording's from now on, and later runs get other memory.
  RunBlocks give_blocks() { return std::move(blocks_); }
  // Of the last profiled run.
  const Profile& profile() const { return profile_; }
  void give_back() noexcept;
  void forget_copies();

 private:
  void run_now(const Call&, const HeldWeights&, Allocator& from);
  void run_regions(const Call&, const HeldWeights&, Allocator& from);
  void run_in(const RunMemory&, const Call&, const HeldWeights&);
  bool records() const { return on_device_ && settings_.recording && !settings_.profiling; }

  std::unique_ptr<Workers> workers_;
  std::unique_ptr<backend::Stream> stream_;
  Executor executor_;
  std::unique_ptr<Routine> routine_;
  RunBlocks blocks_;
  Settings settings_;
  const bool on_device_;
  bool recorded_by_caller_ = false;
  Profile profile_;
};

}  // namespace ingot::runtime
