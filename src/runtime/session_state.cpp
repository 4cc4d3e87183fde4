#include "runtime/session_state.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/strided.h"

namespace ingot::runtime {

SessionState::SessionState(const std::shared_ptr<Weights>& weights, const LoadedFunction& loaded, Allocator& allocator)
    : loaded_(loaded), own_(std::make_shared<State>(weights, allocator, State::Of::one_session)), current_(own_), input_entries_(loaded.inputs, State::none) {
  for (const plan::Binding& b : loaded.function->bindings) {
    if (b.kind == plan::Binding::Kind::state) entries_.push_back(own_->entry_of(b.weight));
  }
}

void SessionState::set(std::shared_ptr<State> state, const Weights& weights) {
  if (state != nullptr) state->check_fits(weights);
  current_ = state != nullptr ? std::move(state) : own_;
  for (size_t i = 0; i < loaded_.inputs; ++i) {
    const plan::Binding& b = loaded_.function->bindings[i];
    input_entries_[i] = b.written ? current_->input(b.name) : State::none;
  }
}

size_t SessionState::entry(size_t index) const {
  if (index >= entries_.size()) fail(Code::invalid_input, "there is no state {}: the function has {}, counted from 0", index, entries_.size());
  return entries_[index];
}

std::span<const HostTensor> SessionState::complete(std::span<const HostTensor> inputs, backend::Stream& stream, std::optional<State::Use>& use) {
  if (inputs.size() != loaded_.inputs || std::none_of(inputs.begin(), inputs.end(), missing_data)) return inputs;
  completed_.assign(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (input_entries_[i] == State::none || !missing_data(inputs[i])) continue;
    const plan::Weight& what = current_->what(input_entries_[i]);
    if (inputs[i].dtype != what.dtype || inputs[i].rank != static_cast<int>(what.dims.size()) || !std::equal(what.dims.begin(), what.dims.end(), inputs[i].dims)) {
      throw Error(Code::invalid_input, fmt::format("input \"{}\" is given without memory as {} {}, and the state has it as {} {}", what.name, ir::torch_name_of(inputs[i].dtype),
                                                   shape_text(inputs[i]), ir::torch_name_of(what.dtype), shape_text(value_of(what, nullptr, nullptr))))
          .fix("give the sizes of the state (ingot_state_entry), or memory for the input");
    }
    if (!use) use.emplace(*current_, &stream);
    completed_[i] = current_->memory(input_entries_[i], stream);
  }
  return completed_;
}

}  // namespace ingot::runtime
