// The state that a session's runs write: its own, or one that the caller gave.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/state.h"

namespace ingot::runtime {

class SessionState {
 public:
  SessionState(const std::shared_ptr<Weights>&, const LoadedFunction&, Allocator&);
  State& current() const { return *current_; }
  const std::shared_ptr<State>& shared() const { return current_; }
  // Null: the session's own. Error (invalid_input) if it is of another plan or device than the weights.
  void set(std::shared_ptr<State>, const Weights&);
  void set_weights(const std::shared_ptr<Weights>& weights) { own_->set_weights(weights); }
  // Of the function's states. Error (invalid_input) if there are not so many.
  size_t entry(size_t index) const;
  const HostTensor& memory(size_t index, backend::Stream& stream) const { return current_->memory(entries_[index], stream); }
  // Null: the state is in its own memory, not in the caller's.
  const HostTensor* bound(size_t index, backend::Stream& stream) const { return current_->is_bound(entries_[index]) ? &memory(index, stream) : nullptr; }
  // The inputs, of which those without memory are taken from the state, if it has them. It is in use from then on.
  std::span<const HostTensor> complete(std::span<const HostTensor> inputs, backend::Stream&, std::optional<State::Use>&);

 private:
  const LoadedFunction& loaded_;
  std::shared_ptr<State> own_, current_;
  std::vector<size_t> entries_;        // of the function's states in current_
  std::vector<size_t> input_entries_;  // of its inputs, else State::none
  std::vector<HostTensor> completed_;
};

}  // namespace ingot::runtime
