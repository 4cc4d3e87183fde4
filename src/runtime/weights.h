// The weights of a plan on one device: what its programs read, made once.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "base/fork.h"
#include "runtime/placement.h"
#include "runtime/program.h"

namespace ingot::runtime {

// Canonical ones stay where they are when the device reaches them there (mapped file, caller's memory), else they are copied to it;
// derived ones are made by the prepare function. Shared by sessions of any thread.
class Weights {
 public:
  // Runs prepare, unless the plan was written without values: then commit() does, and until then current() is null.
  // `threads`: 0 = all that may be used. `allocator`: of memory of the host. `device`: see place().
  Weights(std::shared_ptr<const plan::Plan> plan, int threads, Allocator& allocator = system_allocator(), std::string_view device = "auto");
  const plan::Plan& plan() const { return *plan_; }
  const std::shared_ptr<const plan::Plan>& shared_plan() const { return plan_; }
  const backend::Backend& backend() const { return *placement_.backend; }
  // A snapshot that stays valid while it is held, whatever is set meanwhile.
  struct Set {
    Memory memory;
    std::vector<const std::byte*> values;  // per Plan::weights, as given: in the file, the caller's memory or `copies`; null = not there
    MemoryBlock derived, uploaded;
    std::vector<std::shared_ptr<const MemoryBlock>> copies;  // what set() copied
    uint64_t version = 0;
  };
  std::shared_ptr<const Set> current() const;
  // Stages another value for a weight, of these strides (null: row-major). Unless it is to be copied, or lies otherwise than the weight does and so must be,
  // it is borrowed and may be memory of the device.
  void set(std::string_view name, const void* data, size_t bytes, bool copy, const int64_t* strides = nullptr);
  // Runs prepare on the staged values and swaps; an error leaves everything as it was.
  void commit(int threads);
  const LoadedFunction& function(size_t i) const { return functions_[i]; }

 private:
  // What set() gave, and of it what was copied.
  struct Given {
    std::vector<const std::byte*> sources;
    std::vector<std::shared_ptr<const MemoryBlock>> copies;
  };
  std::shared_ptr<Set> make(const Given&, int threads) const;
  static std::vector<bool> read_by(const plan::Program&, std::vector<bool> also);
  MemoryBlock upload(Set&, const std::vector<bool>& which, backend::Stream&) const;
  Allocator& memory() const { return backend().memory() != nullptr ? *backend().memory() : allocator_; }

  std::shared_ptr<const plan::Plan> plan_;
  Allocator& allocator_;
  Placement placement_;
  LoadedFunction prepare_;
  std::vector<LoadedFunction> functions_;
  std::vector<bool> optional_;  // values that only states begin with: the caller may bind memory instead
  LongMutex committing_;
  mutable Mutex mutex_;
  Given given_;
  std::shared_ptr<const Set> set_;
  uint64_t version_ = 0;
};

// torch's threads where torch is, so that two pools do not fight for the cores.
std::unique_ptr<Workers> make_workers(int threads);

}  // namespace ingot::runtime
