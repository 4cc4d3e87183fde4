// Plans at run time: weights prepared once, sessions that run.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// The weights of a plan on the CPU: canonical ones where they are (mapped file, caller's memory), derived ones made by the
// prepare function. Shared by sessions of any thread.
class Weights {
 public:
  // Runs prepare, unless the plan was written without values: then commit() does, and until then current() is null.
  // `threads`: 0 = all that may be used.
  Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator = system_allocator());
  const plan::Plan& plan() const { return *plan_; }
  const std::shared_ptr<const plan::Plan>& shared_plan() const { return plan_; }
  // A snapshot that stays valid while it is held, whatever is set meanwhile.
  struct Set {
    Memory memory;
    MemoryBlock owned;
    std::vector<std::shared_ptr<const MemoryBlock>> copies;  // what set() copied
    uint64_t version = 0;
  };
  std::shared_ptr<const Set> current() const;
  // Stages another value for a weight: row-major bytes, borrowed until commit and, when `copy` is false, after it too.
  void set(std::string_view name, const void* data, size_t bytes, bool copy);
  // Runs prepare on the staged values and swaps; an error leaves everything as it was.
  void commit(int threads);
  const LoadedFunction& function(size_t i) const { return functions_[i]; }

 private:
  std::shared_ptr<Set> make(int threads) const;

  std::shared_ptr<const plan::Plan> plan_;
  Allocator& allocator_;
  LoadedFunction prepare_;
  std::vector<LoadedFunction> functions_;
  mutable std::mutex mutex_;
  std::vector<bool> optional_;                   // values that only states begin with: the caller may bind memory instead
  std::vector<const std::byte*> sources_;        // what set() gave
  std::vector<std::shared_ptr<const MemoryBlock>> copies_;  // of those, what it copied
  std::shared_ptr<const Set> set_;
  uint64_t version_ = 0;
};

// One caller at a time.
class Session {
 public:
  Session(std::shared_ptr<Weights> weights, size_t function, int threads, Allocator& allocator = system_allocator());
  // Dims of every output for these inputs; range and shape errors as in run().
  const std::vector<std::vector<int64_t>>& resolve(std::span<const HostTensor> inputs);
  // Inputs may have any strides; outputs must be row-major and of the resolved dims. Allocates nothing after the first call at a size.
  void run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  // State (a buffer that the model writes) is the session's own, begun with the plan's value, until memory of the caller's is bound to it: that
  // is read and written in place from then on, and must outlive its use. Data null: the session's own again.
  void bind_state(size_t index, const HostTensor& tensor);
  size_t states() const { return loaded_.states; }
  // Copies a state out (`out` true) or in, row-major.
  void copy_state(size_t index, void* data, size_t bytes, bool out);
  // The session's own states become the plan's values again.
  void reset();
  const plan::Function& function() const { return *loaded_.function; }
  size_t arena_bytes() const { return arena_.size(); }
  size_t kept_sizes() const { return cache_.size(); }
  // From now on run() notes the time of each step; what the last run noted, as JSON, is empty before the first one.
  void set_profiling(bool on) { profiling_ = on; }
  std::string profile() const;

 private:
  Resolved& find(std::span<const HostTensor> inputs);
  std::byte* row_major_of(size_t binding, const HostTensor&);
  void scatter(size_t binding, const HostTensor&);
  const plan::Binding& state_binding(size_t index) const;
  std::byte* own_state(size_t index);
  void check_overlap(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) const;
  [[noreturn]] void refuse_size(size_t input, size_t axis, const HostTensor& given, int64_t needed) const;

  std::shared_ptr<Weights> weights_;
  std::shared_ptr<const Weights::Set> set_;
  const LoadedFunction& loaded_;
  Allocator& allocator_;
  std::unique_ptr<Workers> workers_;
  struct Entry {
    std::vector<int64_t> symbols;
    std::unique_ptr<Resolved> resolved;
  };
  std::list<Entry> cache_;                       // most recent first
  static constexpr size_t cache_limit = 32;
  std::vector<int64_t> wanted_;
  MemoryBlock arena_, scratch_;
  std::vector<MemoryBlock> gathered_;            // row-major copies of strided inputs and states
  struct State {
    MemoryBlock own;
    HostTensor bound;                            // data null: `own` is used
    std::vector<int64_t> dims, strides;          // what `bound` points at
  };
  std::vector<State> states_;
  std::vector<std::byte*> pointers_;
  std::vector<std::vector<int64_t>> output_dims_;
  bool profiling_ = false;
  std::vector<int64_t> nanoseconds_;             // of the last profiled run, a step each
};

}  // namespace ingot::runtime
