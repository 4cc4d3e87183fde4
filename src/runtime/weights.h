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

namespace ingot::runtime {

// Canonical weights stay in place (mapped file, caller's memory) if the device can access them there; otherwise they are copied. The prepare function
// computes derived ones. Sessions of any thread may share them.
class Weights {
 public:
  // Runs prepare, unless the plan was written without values: then commit() does, and current() is null until then. `threads`: 0 = all allowed.
  // `allocator`: for host memory. `device`: see place().
  Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator = system_allocator(), std::string_view device = "auto");
  // A second set of weights with the values of the last commit, for another version or an adapter. Both share what is equal until a commit changes it, so a
  // fork costs only what its commits prepare. Sessions may switch between them.
  std::shared_ptr<Weights> fork() const;
  // True for a fork, directly or through a common origin, and for itself.
  bool is_fork_of(const Weights& other) const { return loaded_ == other.loaded_; }
  const plan::Plan& plan() const { return *loaded_->plan; }
  const std::shared_ptr<const plan::Plan>& shared_plan() const { return loaded_->plan; }
  const backend::Backend& backend() const { return *loaded_->placement.backend; }
  // One block for all derived tensors, so that huge pages back small ones too. A changed derived tensor gets other
  // memory, and returns here at its next change.
  struct Home {
    MemoryBlock block;
    std::vector<size_t> offsets;                 // per Plan::derived
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
  };
  std::shared_ptr<const Set> current() const;
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
  // The parts that do not depend on values. Forks share them.
  struct Loaded {
    std::shared_ptr<const plan::Plan> plan;
    Placement placement;
    LoadedFunction prepare;
    std::vector<LoadedFunction> functions;
    std::vector<bool> read;      // by some function, per Plan::weights
    std::vector<bool> optional;  // only first values of states need it: the caller may bind memory instead
    LongMutex committing;        // one commit at a time, because forks write each other's Home::who
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
    std::vector<bool> weights;       // have new values
    std::vector<bool> home_is_free;  // per Plan::derived
    bool new_home = false;
    PreparePart part;
  };
  std::shared_ptr<Set> make(const Given&, const Set* before, int threads) const;
  void swap_in(std::shared_ptr<const Set> next);
  void take_values(Set&, const Given&) const;
  bool find_change(const Given&, const Set& before, Change&) const;
  std::shared_ptr<const MemoryBlock> place_weights(Set&, const Set* before, const Change&, backend::Stream&) const;
  std::shared_ptr<const MemoryBlock> upload(Set&, const std::vector<bool>& which, backend::Stream&) const;
  void place_derived(Set&, const Set* before, const Change&) const;
  void run_prepare(const LoadedFunction&, const Set&, int threads, backend::Stream&) const;
  void drop_pages(Set&, const Change&) const;
  Allocator& memory() const { return backend().memory() != nullptr ? *backend().memory() : allocator_; }

  const std::vector<plan::Derived>& derived() const { return plan().targets[loaded_->placement.target].derived; }

  const std::shared_ptr<Loaded> loaded_;
  Allocator& allocator_;
  mutable Mutex mutex_;
  Given given_;
  std::shared_ptr<const Set> set_;
  uint64_t changes_ = 0;
  std::atomic<uint64_t> commits_ = 0;
};

// Uses torch's threads inside torch, so that two pools do not compete for the cores.
std::unique_ptr<Workers> make_workers(int threads);

}  // namespace ingot::runtime
