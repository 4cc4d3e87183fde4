// The weights that a session reads: the set of their last commit, which it holds while its runs may read it.
#pragma once
#include <memory>

#include "base/function_ref.h"
#include "runtime/copy_stream.h"
#include "runtime/weights.h"

namespace ingot::runtime {

class HeldWeights {
 public:
  // Destroys recordings that contain copies of streamed weights.
  using Forget = FunctionRef<void()>;

  explicit HeldWeights(std::shared_ptr<Weights> weights) : weights_(std::move(weights)) {}
  Weights& weights() const { return *weights_; }
  const std::shared_ptr<Weights>& shared() const { return weights_; }
  // Only after take().
  const Weights::Set& set() const { return *set_; }
  const std::shared_ptr<const Weights::Set>& shared_set() const { return set_; }
  size_t ring_bytes() const { return set_->memory.streaming != nullptr ? set_->memory.streaming->ring_bytes : 0; }
  // Copies streamed weights; null until there are some.
  CopyStream* copy_stream() const { return copy_stream_.get(); }
  // Takes the set of the last commit. Error (invalid_input) if the weights have no values.
  void take(const backend::Stream&, Forget);
  // Copies of streamed weights that are still running read host memory, which is freed as soon as nobody holds it. So this waits for them.
  void leave(const backend::Stream&, Forget);
  // Other weights for later runs. False: they are the same. Error (invalid_input) unless one is a fork of the other.
  bool replace(std::shared_ptr<Weights>, const backend::Stream&, Forget);
  // All work of a run has been added to the stream.
  void note_end(backend::Stream&);

 private:
  std::shared_ptr<Weights> weights_;
  std::shared_ptr<const Weights::Set> set_;  // as of commit number `commits_`
  uint64_t commits_ = 0;
  std::unique_ptr<CopyStream> copy_stream_;
};

}  // namespace ingot::runtime
