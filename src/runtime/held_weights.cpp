#include "runtime/held_weights.h"

#include "base/error.h"

namespace ingot::runtime {

void HeldWeights::leave(const backend::Stream& stream, Forget forget) {
  if (copy_stream_ != nullptr && set_ != nullptr && ring_bytes() > 0) {
    if (!stream.recorded_by_caller()) copy_stream_->wait();
    forget();
  }
  set_ = nullptr;
}

void HeldWeights::take(const backend::Stream& stream, Forget forget) {
  if (const uint64_t commits = weights_->commits(); commits != commits_ || set_ == nullptr) {
    std::shared_ptr<const Weights::Set> next = weights_->current();
    if (set_ != next) leave(stream, forget);
    set_ = std::move(next);
    commits_ = commits;
  }
  if (set_ != nullptr) {
    if (copy_stream_ == nullptr && ring_bytes() > 0) copy_stream_ = std::make_unique<CopyStream>(weights_->backend());
    return;
  }
  throw Error(Code::invalid_input, "the plan was saved without the values of its weights, and they have not been given")
      .fix("give each with ingot_weights_set, then call ingot_weights_commit");
}

bool HeldWeights::replace(std::shared_ptr<Weights> weights, const backend::Stream& stream, Forget forget) {
  if (!weights->is_fork_of(*weights_)) {
    throw Error(Code::invalid_input, "these weights are not a fork of the session's").fix("make them from the session's weights (ingot_weights_fork), or make a session for them");
  }
  if (weights == weights_) return false;
  leave(stream, forget);
  weights_ = std::move(weights);
  return true;
}

void HeldWeights::note_end(backend::Stream& stream) {
  if (copy_stream_ != nullptr && ring_bytes() > 0 && !stream.recorded_by_caller()) copy_stream_->note_end(stream);
}

}  // namespace ingot::runtime
