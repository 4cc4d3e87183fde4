// Runs one straight function at many sets of sizes: keeps the last resolved ones, and their CUDA graphs.
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
  // The function as resolved for these symbols, which becomes current; null if it was never resolved or was dropped. Its
  // steps get the weights' addresses from `memory`.
  Resolved* find(std::span<const int64_t> symbols, const Memory& memory);
  // Resolves for symbols that find() does not have, and makes the result current.
  Resolved& resolve(std::vector<int64_t> symbols, const Memory&, Workers&, backend::Stream&);
  // The last result of find() or resolve().
  Resolved& current() { return *kept_.front().resolved; }
  const Resolved* last() const { return kept_.empty() ? nullptr : kept_.front().resolved.get(); }
  // Destroys the recordings that contain copies of streamed weights. They must not outlive the memory that these copies read.
  void forget_copies();
  size_t kept() const { return kept_.size(); }
  // Number of resolve() calls.
  size_t resolutions() const { return resolutions_; }

  // Runs the steps at the current sizes. `recording`: steps that run again with the same addresses are recorded, and the recording is replayed from then on.
  void run(std::span<std::byte* const> bindings, const RunMemory&, Workers&, backend::Stream&, CopyStream* copy_stream, bool recording, bool marks = false);

 private:
  // Recent sets of addresses, and recordings for them. Several are kept: a caller's allocator alternates between two places while it still holds the last
  // result, and a session may switch between sets of weights.
  using Addresses = std::vector<std::byte*>;
  struct Recent {
    std::shared_ptr<const Addresses> weights;
    // The streamed weights: their copies are part of the recording. Compared by address, and held so that no later placement gets the same address.
    std::shared_ptr<const Streaming> streaming;
    Addresses addresses;
    std::unique_ptr<backend::Recording> recording;
  };
  static constexpr size_t recent_limit = 4;
  struct Entry {
    std::vector<int64_t> symbols;
    std::unique_ptr<Resolved> resolved;
    uint64_t memory;                           // number of the Memory that the steps point to
    std::shared_ptr<const Addresses> weights;  // addresses of the weights that are not streamed; equal ones share one object with `recent`. Null: not computed yet
    std::list<Recent> recent;                  // most recent first
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
