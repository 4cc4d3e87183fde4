// One straight function for many sets of sizes: what was resolved for the last ones, and what was recorded on a GPU.
#pragma once
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

class Executor {
 public:
  Executor(const LoadedFunction& loaded, const plan::Plan& plan) : loaded_(loaded), plan_(plan) {}
  const LoadedFunction& loaded() const { return loaded_; }
  // What was resolved for these symbols, which becomes the current one; null when it was not, or is no longer kept. Its steps find the weights where `memory` says.
  Resolved* find(std::span<const int64_t> symbols, const Memory& memory);
  // Resolves for symbols that find() does not know, and makes that the current one.
  Resolved& resolve(std::vector<int64_t> symbols, const Memory&, Workers&);
  // Of the last find() or resolve() that gave one.
  Resolved& current() { return *kept_.front().resolved; }
  const Resolved* last() const { return kept_.empty() ? nullptr : kept_.front().resolved.get(); }
  size_t kept() const { return kept_.size(); }
  // How often sizes were resolved.
  size_t resolutions() const { return resolutions_; }

  // The steps at the current sizes. `recording`: work that comes again with the same addresses is recorded, and replayed from then on.
  void run(std::span<std::byte* const> bindings, const RunMemory&, Workers&, backend::Stream&, Lane* lane, bool recording, bool marks = false);

 private:
  // Addresses that the work was done with lately, and those of the weights. Several are kept, for a caller's allocator gives results two places in turn while the
  // last one is still held, and a session may go from one set of weights to another.
  using Addresses = std::vector<std::byte*>;
  struct Met {
    std::shared_ptr<const Addresses> weights;
    Addresses addresses;
    std::unique_ptr<backend::Recording> recording;
  };
  static constexpr size_t met_limit = 4;
  struct Entry {
    std::vector<int64_t> symbols;
    std::unique_ptr<Resolved> resolved;
    uint64_t memory;                           // number of the one that the steps point at
    std::shared_ptr<const Addresses> weights;  // where they are there; equal ones are one object here and in `met`. Null: not asked yet
    std::list<Met> met;                        // most recent first
  };
  static constexpr size_t kept_limit = 32;
  static std::shared_ptr<const Addresses> weights_of(const Entry&);

  const LoadedFunction& loaded_;
  const plan::Plan& plan_;
  std::list<Entry> kept_;  // most recent first
  Addresses addresses_;    // of bindings, arena, scratch and ring: what recorded work holds
  size_t resolutions_ = 0;
};

}  // namespace ingot::runtime
