#include "runtime/session.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "runtime/call_checks.h"
#include "runtime/strided.h"

namespace ingot::runtime {

Session::Session(std::shared_ptr<Weights> weights, size_t function, const Threads& threads, Allocator& allocator)
    : weights_(std::move(weights)),
      loaded_(weights_.weights().function(function)),
      allocator_(allocator),
      runner_(weights_.weights(), function, threads),
      state_(weights_.shared(), loaded_, allocator),
      tensors_(loaded_, allocator),
      wanted_(loaded_.symbols.size()),
      pointers_(loaded_.function->bindings.size()),
      output_dims_(loaded_.outputs),
      on_device_(loaded_.backend->memory() != nullptr) {}

Session::~Session() {
  try {
    weights_.leave(runner_.stream(), [this] { runner_.forget_copies(); });
  } catch (const Error&) {
    // If the driver refuses to wait, it runs nothing any more.
  }
}

void Session::take_weights() {
  weights_.take(runner_.stream(), [this] { runner_.forget_copies(); });
}

void Session::set_weights(std::shared_ptr<Weights> weights) {
  if (weights_.replace(std::move(weights), runner_.stream(), [this] { runner_.forget_copies(); })) state_.set_weights(weights_.shared());
}

Resolved& Session::find(std::span<const HostTensor> inputs) {
  check_inputs(loaded_, inputs);
  for (size_t s = 0; s < loaded_.symbols.size(); ++s) {
    const plan::SymbolSource& source = loaded_.symbols[s];
    wanted_[s] = source.binding == UINT32_MAX ? loaded_.function->symbols[s].opt : source.size.symbol_at(inputs[source.binding].dims[source.axis]);
  }
  if (runner_.routine() != nullptr) runner_.routine()->bound(wanted_);
  take_weights();
  Resolved* known = runner_.find(wanted_, weights_.set().memory);
  if (known == nullptr) {
    check_ranges(loaded_, wanted_, inputs);
    known = &runner_.resolve(wanted_, weights_.set().memory);
  }
  if (const size_t needs = known->arena_bytes + known->scratch_bytes; weights_.set().limit > 0 && needs > weights_.set().arena) {
    if (runner_.stream().recorded_by_caller()) {
      throw Error(Code::invalid_input, "a run with these sizes moves weights to the host, so it cannot be recorded into a CUDA graph")
          .fix("run once with these sizes before the capture");
    }
    weights_.weights().make_room(needs);
    take_weights();
    known = runner_.find(wanted_, weights_.set().memory);
  }
  check_sizes(loaded_, wanted_, inputs, *known);
  return *known;
}

const std::vector<std::vector<int64_t>>& Session::resolve(std::span<const HostTensor> inputs) {
  Resolved& r = find(inputs);
  for (size_t o = 0; o < loaded_.outputs; ++o) {
    output_dims_[o] = r.binding_dims[loaded_.inputs + o];
    if (is_open(o) && !runner_.routine()->is_bounded(loaded_.inputs + o)) output_dims_[o].assign(output_dims_[o].size(), -1);
  }
  return output_dims_;
}

void Session::run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  if (keeping_) return run_kept(inputs, outputs);
  struct Return {
    Session* session;
    ~Return() {
      session->runner_.give_back();
      session->tensors_.free();
    }
  } return_at_end{this};
  run_kept(inputs, outputs);
}

void Session::run_kept(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  tensors_.begin();
  backend::Stream& stream = runner_.stream();
  try {
    stream.check();
  } catch (Error& e) {
    e.message = "an earlier call: " + e.message;
    throw;
  }
  std::optional<State::Use> use;
  inputs = state_.complete(inputs, stream, use);
  Resolved& r = find(inputs);
  runner_.fit(r, weights_.ring_bytes(), memory());
  check_outputs(loaded_, outputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (missing_data(inputs[i])) fail(Code::invalid_input, "input \"{}\" has no data: its pointer is NULL", loaded_.function->bindings[i].name);
    pointers_[i] = tensors_.take(i, inputs[i], true, stream);
  }
  take_outputs(outputs, r);
  if (loaded_.states > 0 && !use) use.emplace(state_.current(), &stream);
  take_states();
  if (loaded_.writes) {
    check_overlap_(*loaded_.function, [&](size_t b) -> const HostTensor& {
      return b < inputs.size() ? inputs[b] : b < first_state() ? outputs[b - inputs.size()] : state_.memory(b - first_state(), stream);
    });
  }
  work(outputs);
  if (!on_device_ && !loaded_.writes) return;
  const bool host = give_results(inputs, outputs);
  if (use) use->finish();
  if (!host) return;
  stream.wait();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (loaded_.function->bindings[i].written) tensors_.scatter(i, inputs[i]);
  }
  for (size_t i = 0; i < loaded_.states; ++i) {
    if (const HostTensor* t = state_.bound(i, stream)) tensors_.scatter(first_state() + i, *t);
  }
}

void Session::take_outputs(std::span<const HostTensor> outputs, const Resolved& r) {
  late_.assign(outputs.size(), nullptr);
  for (size_t o = 0; o < outputs.size(); ++o) {
    const size_t binding = loaded_.inputs + o;
    if (is_open(o) && outputs[o].data == nullptr && output_memory_) {
      pointers_[binding] = nullptr;
      continue;
    }
    check_output(loaded_.function->bindings[binding], outputs[o], r.binding_dims[binding], is_open(o));
    pointers_[binding] = tensors_.take(binding, outputs[o], false, runner_.stream());
  }
}

void Session::take_states() {
  backend::Stream& stream = runner_.stream();
  for (size_t i = 0; i < loaded_.states; ++i) {
    const HostTensor& t = state_.memory(i, stream);
    pointers_[first_state() + i] = state_.bound(i, stream) != nullptr ? tensors_.take(first_state() + i, t, true, stream) : static_cast<std::byte*>(t.data);
  }
}

// The caller's recording runs when this session, its weights and its module may be gone. It holds what kernels use then: their code, the weights of this run, the
// state, and memory for this run alone.
void Session::keep_for_recording() {
  struct Kept {
    std::shared_ptr<const backend::Backend> backend;  // first: its allocators are the others'
    std::shared_ptr<const Weights::Set> set;
    std::shared_ptr<State> state;
    RunBlocks blocks;
  };
  std::shared_ptr<State> state = loaded_.states > 0 ? state_.shared() : nullptr;
  runner_.stream().keep(std::make_shared<const Kept>(weights_.weights().shared_backend(), weights_.shared_set(), std::move(state), runner_.give_blocks()));
}

// True if the caller's host memory is read or written after the work. The caller may change it when run() returns, and pinned memory is read later.
bool Session::give_results(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  backend::Stream& stream = runner_.stream();
  bool host = tensors_.reads_host();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (loaded_.function->bindings[i].written) host = tensors_.give(i, inputs[i], stream) || host;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const size_t binding = loaded_.inputs + o;
    if (outputs[o].data != nullptr) host = tensors_.give(binding, outputs[o], stream) || host;
    if (late_[o] == nullptr) continue;
    stream.copy(late_[o], tensors_.on_device(binding, late_bytes(o)), late_bytes(o));
    host = true;
  }
  for (size_t i = 0; i < loaded_.states; ++i) {
    if (const HostTensor* t = state_.bound(i, stream)) host = tensors_.give(first_state() + i, *t, stream) || host;
  }
  return host;
}

size_t Session::late_bytes(size_t output) const {
  size_t n = ir::size_of(loaded_.function->bindings[loaded_.inputs + output].dtype);
  for (int64_t d : runner_.routine()->dims(loaded_.inputs + output)) n *= static_cast<size_t>(d);
  return n;
}

// Returns where kernels write an output whose sizes have just been read: the caller's memory, or a block on the device if the device cannot access that.
std::byte* Session::make_late_output(size_t output, std::span<const int64_t> dims) {
  std::byte* data = output_memory_(output, dims);
  const size_t bytes = late_bytes(output);
  if (!tensors_.needs_copy(data, bytes)) return data;
  late_[output] = data;
  return tensors_.on_device(loaded_.inputs + output, bytes);
}

void Session::work(std::span<const HostTensor> outputs) {
  static const OutputMemory none;
  const Routine* routine = runner_.routine();
  if (routine == nullptr) {
    runner_.run({pointers_, {}, {}, none}, weights_, memory());
    if (runner_.recorded_by_caller()) keep_for_recording();
    return;
  }
  room_.assign(pointers_.size(), 0);
  for (size_t o = 0; o < outputs.size(); ++o) room_[loaded_.inputs + o] = outputs[o].data != nullptr ? bytes_of(outputs[o]) : 0;
  OutputMemory late;
  if (output_memory_) late = [this](size_t output, std::span<const int64_t> dims) { return make_late_output(output, dims); };
  runner_.run({pointers_, room_, wanted_, late}, weights_, memory());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::span<const int64_t> dims = routine->dims(loaded_.inputs + o);
    output_dims_[o].assign(dims.begin(), dims.end());
  }
}

Weights::Usage Session::memory_usage() const {
  Weights::Usage out = weights_.weights().usage();
  const Resolved* last = runner_.last();
  out.arena = last != nullptr ? last->arena_bytes + last->scratch_bytes : 0;
  return out;
}

void Session::copy_state(size_t index, void* data, size_t bytes, bool out) {
  const size_t entry = state_.entry(index);
  wait();
  state_.current().copy(entry, data, bytes, out);
}

void Session::reset() {
  wait();
  state_.current().reset(true);
}

}  // namespace ingot::runtime
