#include "runtime/runner.h"

#include <chrono>

#include "base/error.h"

namespace ingot::runtime {

Runner::Runner(const Weights& weights, size_t function, const Threads& threads)
    : workers_(make_workers(threads)),
      stream_(weights.backend().new_stream()),
      executor_(weights.function(function), weights.plan()),
      on_device_(weights.backend().memory() != nullptr) {
  if (!executor_.loaded().function->regions.empty()) routine_ = std::make_unique<Routine>(weights, function);
}

void Runner::fit(const Resolved& r, size_t ring, Allocator& from) {
  if (settings_.run_memory == nullptr) blocks_.fit(r, routine_ == nullptr ? ring : 0, from, "a session");
}

void Runner::run(const Call& c, HeldWeights& weights, Allocator& from) {
  if (!settings_.profiling) {
    run_now(c, weights, from);
    return weights.note_end(*stream_);
  }
  const auto begun = std::chrono::steady_clock::now();
  run_now(c, weights, from);
  weights.note_end(*stream_);
  profile_.call_nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begun).count();
}

void Runner::run_now(const Call& c, const HeldWeights& weights, Allocator& from) {
  if (routine_ != nullptr) return run_regions(c, weights, from);
  if (settings_.run_memory == nullptr) return run_in(blocks_.memory(), c, weights);
  const Resolved& r = executor_.current();
  const size_t alignment = executor_.loaded().backend->alignment(), arena = (r.arena_bytes + alignment - 1) / alignment * alignment;
  const size_t ring = weights.ring_bytes(), bytes = ring + arena + r.scratch_bytes;  // ring_bytes() is a multiple of the alignment
  MemoryBlock block(bytes > 0 ? bytes + 64 : 0, *settings_.run_memory);
  run_in({block.data() + ring, block.data() + ring + arena, block.data()}, c, weights);
}

void Runner::run_in(const RunMemory& memory, const Call& c, const HeldWeights& weights) {
  recorded_by_caller_ = on_device_ && stream_->recorded_by_caller();
  executor_.run(c.bindings, memory, *workers_, *stream_, weights.copy_stream(), records() && !recorded_by_caller_, settings_.profiling);
  if (!settings_.profiling) return;
  profile_.timed.clear();
  note_times(executor_, *stream_, profile_.timed);
}

void Runner::run_regions(const Call& c, const HeldWeights& weights, Allocator& from) {
  if (stream_->recorded_by_caller()) {
    throw Error(Code::invalid_input,
                fmt::format("\"{}\" reads sizes or conditions from data while it runs, so it cannot be recorded into a CUDA graph", executor_.loaded().function->name))
        .fix("call it outside of the capture");
  }
  struct Return {
    Routine* routine;
    ~Return() {
      if (routine != nullptr) routine->give_back();
    }
  } return_at_end{settings_.run_memory != nullptr ? routine_.get() : nullptr};
  Allocator& memory = settings_.run_memory != nullptr ? *settings_.run_memory : from;
  routine_->run(c.bindings, c.room, c.symbols, {weights.set().memory, *workers_, *stream_, memory, weights.copy_stream(), c.late, records(), settings_.profiling});
  if (settings_.profiling) profile_.timed = routine_->timed();
}

void Runner::give_back() noexcept {
  blocks_.free();
  if (routine_ != nullptr) routine_->give_back();
}

void Runner::forget_copies() {
  executor_.forget_copies();
  if (routine_ != nullptr) routine_->forget_copies();
}

}  // namespace ingot::runtime
