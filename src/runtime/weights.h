// The weights of a plan on one device, as its programs read them.
#pragma once
#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "base/fork.h"
#include "runtime/placement.h"
#include "runtime/prepare.h"
#include "runtime/program.h"
#include "runtime/streaming.h"

namespace ingot::runtime {

// Canonical weights stay in place (mapped file, caller's memory) if the device can access them there, on a GPU at an aligned address; otherwise they are copied.
// The prepare function computes derived ones. Sessions of any thread may share them.
class Weights {
 public:
  // Runs prepare, unless the plan was written without values: then commit() does, and current() is null until then. `threads`: 0 = all allowed.
  // `allocator`: for host memory. `device`: see place(). `limit`: see set_limit().
  Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator = system_allocator(), std::string_view device = "auto", int64_t limit = 0);
  // A second set of weights with the values of the last commit, for another version or an adapter. Both share what is equal until a commit changes it, so a
  // fork costs only what its commits prepare. Sessions may switch between them.
  std::shared_ptr<Weights> fork() const;
  // True for a fork, directly or through a common origin, and for itself.
  bool is_fork_of(const Weights& other) const { return loaded_ == other.loaded_; }
  const plan::Plan& plan() const { return *loaded_->plan; }
  const std::shared_ptr<const plan::Plan>& shared_plan() const { return loaded_->plan; }
  const backend::Backend& backend() const { return *loaded_->placement.backend; }
  std::shared_ptr<const backend::Backend> shared_backend() const { return {loaded_, &backend()}; }
  // One block for all derived tensors, so that huge pages back small ones too. A changed derived tensor gets other
  // memory, and returns here at its next change.
  struct Home {
    MemoryBlock block;
    static constexpr size_t nowhere = SIZE_MAX;
    std::vector<size_t> offsets;                 // per Plan::derived; nowhere: its first value is another Weights'
    std::vector<std::weak_ptr<const void>> who;  // owner of each place; only for commit()
  };
  // A snapshot. It stays valid while it is held, whatever is set meanwhile.
  struct Set {
    Memory memory;
    std::vector<const std::byte*> values;  // per Plan::weights, as given: in the file, the caller's memory or `copies`; null = no value
    std::vector<std::shared_ptr<const MemoryBlock>> copies;    // what set() copied
    std::vector<std::shared_ptr<const MemoryBlock>> uploaded;  // per Plan::weights: the block of its copy on the device
    std::vector<std::shared_ptr<const void>> derived;          // per Plan::derived: its block; unchanged ones are shared with the previous set
    std::shared_ptr<Home> home;
    std::vector<uint64_t> changes;  // per Plan::weights: Given::changes of these values
    // Only with a limit, per WeightReads::weights of Loaded::reads: the weight's own block, on the device or in pinned host memory. Null: the caller's memory is used.
    std::vector<std::shared_ptr<const MemoryBlock>> kept;
    Split split;
    size_t limit = 0, arena = 0;  // the limit, and the part of it that is reserved for a run
  };
  std::shared_ptr<const Set> current() const;
  // Limits the device memory, in bytes, that the weights and one session's run take together. Weights beyond the limit stay in host memory, and sessions copy
  // them to the device ahead of the steps that read them (streaming.h). 0: no limit. automatic: nine tenths of the free memory. Later runs use the new places;
  // old memory is freed when no session uses it. Error (out_of_memory) names the smallest limit that works; (invalid_option): a limit on the host. An error
  // changes nothing.
  static constexpr int64_t automatic = -1;
  void set_limit(int64_t limit, int threads = 0);
  // Reserves this much of the limit for a run, if less is reserved; then more weights are streamed. Does nothing without a limit.
  void make_room(size_t arena);
  // In bytes: the weights on the device; the streamed ones, in host memory; the ring of each session, to which they are copied; the memory of a run; the limit
  // (0: none); the smallest limit that set_limit() accepts (0 on the host).
  struct Usage {
    size_t resident = 0, streamed = 0, ring = 0, arena = 0, limit = 0, least = 0;
  };
  Usage usage() const;
  // Number of commits. current() changes only when this does.
  uint64_t commits() const { return commits_.load(std::memory_order_acquire); }
  // Stages a new value for a weight, with these strides (null: row-major). It is copied if `copy` is set or if its axis order differs from the
  // weight's. Otherwise it is borrowed, and may be device memory.
  void set(std::string_view name, const void* data, size_t bytes, bool copy, const int64_t* strides = nullptr);
  // Runs the part of prepare that depends on the staged values, then swaps the sets. An error changes nothing. Without staged values everything is
  // prepared again, since borrowed memory may have changed.
  void commit(int threads);
  const LoadedFunction& function(size_t i) const { return loaded_->functions[i]; }

 private:
  struct Making;
  // The parts that do not depend on values. Forks share them.
  struct Loaded {
    std::shared_ptr<const plan::Plan> plan;
    Placement placement;
    LoadedFunction prepare;
    std::vector<LoadedFunction> functions;
    std::vector<bool> read;  // by some function, per Plan::weights
    std::vector<size_t> weight_bytes, derived_bytes;
    WeightReads reads;  // of the functions
    std::vector<std::shared_ptr<const Making>> makings;  // per Plan::derived; null if no function reads it. Empty until the first limit
    std::vector<bool> optional;  // only first values of states need it: the caller may bind memory instead
    LongMutex committing;  // one commit at a time, because forks write each other's Home::who
  };
  Weights(std::shared_ptr<Loaded> loaded, Allocator& allocator) : loaded_(std::move(loaded)), allocator_(allocator) {}
  // The values from set(), and the copies that it made.
  struct Given {
    std::vector<const std::byte*> sources;
    std::vector<std::shared_ptr<const MemoryBlock>> copies;
    std::vector<uint64_t> changes;  // how many set() calls there were up to this value
  };
  // What a commit recomputes; the rest is shared with the previous set.
  struct Change {
    std::vector<bool> weights;  // have new values
    std::vector<bool> home_is_free;  // per Plan::derived
    bool new_home = false;
    PreparePart part;
  };
  // How the weights of a set are limited.
  struct Limit {
    bool on = false;  // each weight has a block of its own; stays set after the limit was removed
    bool automatic = false;  // `bytes` follows from the free memory when the weights are placed first
    size_t bytes = 0;  // 0: no limit, or not known yet
    size_t arena = 0;
  };
  std::shared_ptr<Set> make(const Given&, const Set* before, int threads) const;
  class Within;
  std::shared_ptr<Set> make_within(const Given&, const Set* before, bool anew, const Limit&, int threads) const;
  void find_makings() const;
  size_t usual_bytes() const;
  size_t largest_making() const;
  Limit limit_for(int64_t limit) const;
  void place_anew(const Limit&, int threads);
  void swap_in(std::shared_ptr<const Set> next, const Limit&);
  static uint64_t new_number();
  void take_values(Set&, const Given&) const;
  bool find_change(const Given&, const Set& before, Change&) const;
  void place_weights(Set&, const Set* before, const Change&, backend::Stream&) const;
  void prepare(Set&, const Change&, Workers&, backend::Stream&) const;
  std::shared_ptr<const MemoryBlock> upload(Set&, const std::vector<bool>& which, backend::Stream&) const;
  void place_derived(Set&, const Set* before, const Change&) const;
  void share_equal(Set&, const Change&) const;
  void run_prepare(const LoadedFunction&, const Memory&, Workers&, backend::Stream&) const;
  void drop_pages(const Change&) const;
  size_t padded(size_t bytes) const { return padded_bytes(bytes, backend().alignment()); }
  // True if programs read the value where it is. Kernels of a GPU take weights to be aligned (backend::Operand::aligned).
  bool stays(const std::byte* value) const { return backend().can_access(value) && reinterpret_cast<uintptr_t>(value) % 16 == 0; }
  Allocator& memory() const { return backend().memory() != nullptr ? *backend().memory() : allocator_; }

  const std::vector<plan::Derived>& derived() const { return plan().targets[loaded_->placement.target].derived; }

  const std::shared_ptr<Loaded> loaded_;
  Allocator& allocator_;
  mutable Mutex mutex_;
  Given given_;
  std::shared_ptr<const Set> set_;
  Limit limit_;
  uint64_t changes_ = 0;
  std::atomic<uint64_t> commits_ = 0;
};

}  // namespace ingot::runtime
