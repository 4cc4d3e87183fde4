#include "runtime/session.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "plan/describe.h"
#include "runtime/strided.h"

namespace ingot::runtime {

namespace {

// "2 inputs (x, y)"
std::string list_text(const char* what, std::span<const plan::Binding> bindings) {
  std::string s = fmt::format("{} {}{} (", bindings.size(), what, bindings.size() == 1 ? "" : "s");
  for (const plan::Binding& b : bindings) s += (&b == bindings.data() ? "" : ", ") + b.name;
  return s + ")";
}

std::string given_text(size_t n) { return fmt::format("{} {}", n, n == 1 ? "is" : "are"); }

void grow(MemoryBlock& block, size_t bytes, Allocator& allocator, std::string_view what) {
  if (block.size() < bytes) block = reserve(bytes, allocator, what);
}

}  // namespace

Session::Session(std::shared_ptr<Weights> weights, size_t function, const Threads& threads, Allocator& allocator)
    : weights_(std::move(weights)),
      loaded_(weights_->function(function)),
      allocator_(allocator),
      workers_(make_workers(threads)),
      stream_(weights_->backend().new_stream()),
      device_(weights_->backend().memory() != nullptr),
      executor_(loaded_, weights_->plan()) {
  pointers_.resize(loaded_.function->bindings.size());
  gathered_.resize(loaded_.function->bindings.size());
  staged_.resize(loaded_.function->bindings.size());
  own_state_ = state_ = std::make_shared<State>(weights_, allocator_, State::Of::one_session);
  for (const plan::Binding& b : loaded_.function->bindings) {
    if (b.kind == plan::Binding::Kind::state) state_entries_.push_back(state_->entry_of(b.weight));
  }
  if (!loaded_.function->regions.empty()) routine_ = std::make_unique<Routine>(*weights_, function);
  input_entries_.assign(loaded_.inputs, State::none);
  output_dims_.resize(loaded_.outputs);
  wanted_.resize(loaded_.symbols.size());
}

void Session::refuse_size(size_t input, size_t axis, const HostTensor& given, int64_t needed) const {
  const plan::Function& f = *loaded_.function;
  plan::SizeRef size = f.bindings[input].dims[axis];
  bool fixed = f.sizes.code[size].op == SizeInstruction::Op::constant;
  std::string what = fmt::format("axis {} of input \"{}\" (shape {}) has size {}", axis, f.bindings[input].name, shape_text(given), given.dims[axis]);
  for (size_t s = 0; s < loaded_.symbols.size(); ++s) {
    const plan::SymbolSource& source = loaded_.symbols[s];
    if (source.binding != input || source.axis != axis || source.size.plain()) continue;
    const plan::Symbol& symbol = f.symbols[s];
    const std::string upto = symbol.max == INT64_MAX ? "" : std::to_string(source.size.size_at(symbol.max));
    Error problem(Code::invalid_input,
                  fmt::format("{}, but the plan was built for sizes {}..{} in steps of {} there", what, source.size.size_at(symbol.min), upto, source.size.factor));
    throw problem.fix(wanted_[s] < symbol.max ? fmt::format("give {} or {}", needed, source.size.size_at(wanted_[s] + 1)) : fmt::format("give {}", needed));
  }
  throw Error(Code::invalid_input, fixed ? fmt::format("{}, but the plan was built for {} there", what, needed)
                                         : fmt::format("{}, but the sizes of the other inputs make it {} = {}", what, plan::size_text(f, size), needed))
      .fix(fixed ? "give this size, or compile with a range for this axis" : "give inputs whose sizes agree");
}

void Session::check_ranges(std::span<const HostTensor> inputs) const {
  const plan::Function& f = *loaded_.function;
  for (size_t s = 0; s < wanted_.size(); ++s) {
    const plan::Symbol& symbol = f.symbols[s];
    if (wanted_[s] >= symbol.min && wanted_[s] <= symbol.max) continue;
    const plan::SymbolSource& source = loaded_.symbols[s];
    if (source.binding == UINT32_MAX) fail(Code::internal, "size {} has no usual value", symbol.name);
    Error problem(Code::invalid_input,
                  fmt::format("axis {} of input \"{}\" has size {}, outside the range {}..{} the plan was built for", source.axis, f.bindings[source.binding].name,
                              inputs[source.binding].dims[source.axis], source.size.size_at(symbol.min), source.size.size_at(symbol.max)));
    throw problem.fix("compile with a wider range for this axis");
  }
}

Session::~Session() {
  try {
    leave_weights();
  } catch (const Error&) {
    // If the driver refuses to wait, it runs nothing any more.
  }
}

// Copies of streamed weights that are still running read host memory, which is freed as soon as nobody holds it. So this waits for them.
void Session::leave_weights() {
  if (copy_stream_ != nullptr && set_ != nullptr && ring_bytes() > 0) {
    if (!stream_->recorded_by_caller()) copy_stream_->wait();
    executor_.forget_copies();
    if (routine_ != nullptr) routine_->forget_copies();
  }
  set_ = nullptr;
}

// Takes the set of the last commit. The session holds it while it runs.
void Session::take_weights() {
  if (const uint64_t commits = weights_->commits(); commits != commits_ || set_ == nullptr) {
    std::shared_ptr<const Weights::Set> next = weights_->current();
    if (set_ != next) leave_weights();
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

void Session::set_weights(std::shared_ptr<Weights> weights) {
  if (!weights->is_fork_of(*weights_)) {
    throw Error(Code::invalid_input, "these weights are not a fork of the session's").fix("make them from the session's weights (ingot_weights_fork), or make a session for them");
  }
  if (weights == weights_) return;
  leave_weights();
  weights_ = std::move(weights);
  own_state_->set_weights(weights_);
}

Resolved& Session::find(std::span<const HostTensor> inputs) {
  const plan::Function& f = *loaded_.function;
  if (inputs.size() != loaded_.inputs)
    fail(Code::invalid_input, "the plan takes {}, but {} given", list_text("input", std::span(f.bindings).first(loaded_.inputs)), given_text(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::Binding& b = f.bindings[i];
    if (inputs[i].dtype != b.dtype) {
      Error problem(Code::invalid_input, fmt::format("input \"{}\" is {}, but the plan was built for {}", b.name, ir::torch_name_of(inputs[i].dtype), ir::torch_name_of(b.dtype)));
      throw problem.fix(fmt::format("convert it to {}", ir::torch_name_of(b.dtype)));
    }
    if (inputs[i].rank != static_cast<int>(b.dims.size())) {
      std::string dims;
      for (plan::SizeRef d : b.dims) dims += (dims.empty() ? "" : ", ") + plan::size_text(f, d);
      fail(Code::invalid_input, "input \"{}\" has rank {} (shape {}), but the plan was built for rank {}: [{}]", b.name, inputs[i].rank, shape_text(inputs[i]), b.dims.size(),
           dims);
    }
  }
  for (size_t s = 0; s < loaded_.symbols.size(); ++s) {
    const plan::SymbolSource& source = loaded_.symbols[s];
    wanted_[s] = source.binding == UINT32_MAX ? f.symbols[s].opt : source.size.symbol_at(inputs[source.binding].dims[source.axis]);
  }
  if (routine_ != nullptr) routine_->bound(wanted_);
  take_weights();
  Resolved* known = executor_.find(wanted_, set_->memory);
  if (known == nullptr) {
    check_ranges(inputs);
    known = &executor_.resolve(wanted_, set_->memory, *workers_, *stream_);
  }
  if (const size_t needs = known->arena_bytes + known->scratch_bytes; set_->limit > 0 && needs > set_->arena) {
    if (stream_->recorded_by_caller()) {
      throw Error(Code::invalid_input, "a run with these sizes moves weights to the host, so it cannot be recorded into a CUDA graph")
          .fix("run once with these sizes before the capture");
    }
    weights_->make_room(needs);
    take_weights();
    known = executor_.find(wanted_, set_->memory);
  }
  Resolved& r = *known;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < inputs[i].rank; ++d) {
      if (inputs[i].dims[d] != r.binding_dims[i][static_cast<size_t>(d)]) {
        refuse_size(i, static_cast<size_t>(d), inputs[i], r.binding_dims[i][static_cast<size_t>(d)]);
      }
    }
  }
  return r;
}

const std::vector<std::vector<int64_t>>& Session::resolve(std::span<const HostTensor> inputs) {
  Resolved& r = find(inputs);
  for (size_t o = 0; o < loaded_.outputs; ++o) {
    output_dims_[o] = r.binding_dims[loaded_.inputs + o];
    if (is_open(o) && !routine_->is_bounded(loaded_.inputs + o)) {
      output_dims_[o].assign(output_dims_[o].size(), -1);
    }
  }
  return output_dims_;
}

void Session::run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  if (keeping_) return run_kept(inputs, outputs);
  struct Return {
    Session* session;
    ~Return() { session->give_back(); }
  } return_at_end{this};
  run_kept(inputs, outputs);
}

void Session::give_back() noexcept {
  arena_ = MemoryBlock();
  scratch_ = MemoryBlock();
  ring_ = MemoryBlock();
  if (routine_ != nullptr) routine_->give_back();
  for (auto* copies : {&gathered_, &staged_}) {
    for (MemoryBlock& block : *copies) block = MemoryBlock();
  }
}

void Session::run_kept(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  from_host_ = false;
  try {
    stream_->check();
  } catch (Error& e) {
    e.message = "an earlier call: " + e.message;
    throw;
  }
  std::optional<State::Use> use;
  inputs = from_state(inputs, use);
  Resolved& r = find(inputs);
  if (run_memory_ == nullptr) {
    grow(arena_, r.arena_bytes, memory(), "the arena of a session");
    grow(scratch_, r.scratch_bytes + 64, memory(), "the scratch memory of a session");
    if (routine_ == nullptr && ring_.size() != ring_bytes()) ring_ = MemoryBlock(), ring_ = reserve(ring_bytes(), memory(), "the ring for streamed weights");
  }
  if (outputs.size() != loaded_.outputs)
    fail(Code::invalid_input, "the plan gives {}, but room for {} given", list_text("output", std::span(loaded_.function->bindings).subspan(loaded_.inputs, loaded_.outputs)),
         given_text(outputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (missing_data(inputs[i])) fail(Code::invalid_input, "input \"{}\" has no data: its pointer is NULL", loaded_.function->bindings[i].name);
    pointers_[i] = take(i, inputs[i], true);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const plan::Binding& b = loaded_.function->bindings[inputs.size() + o];
    const std::vector<int64_t>& dims = r.binding_dims[inputs.size() + o];
    if (is_open(o) && outputs[o].data == nullptr && output_memory_) {
      pointers_[inputs.size() + o] = nullptr;
      continue;
    }
    bool fits = outputs[o].dtype == b.dtype && outputs[o].rank == static_cast<int>(dims.size()) && lies_in({}, outputs[o]) &&
                (is_open(o) || std::equal(dims.begin(), dims.end(), outputs[o].dims));
    if (!fits)
      fail(Code::invalid_input, "the tensor given for output \"{}\" ({} {}) does not have the dtype, shape and row-major strides of the result", b.name,
           ir::torch_name_of(outputs[o].dtype), shape_text(outputs[o]));
    if (missing_data(outputs[o])) fail(Code::invalid_input, "output \"{}\" has no memory: its pointer is NULL", b.name);
    pointers_[inputs.size() + o] = take(inputs.size() + o, outputs[o], false);
  }
  if (loaded_.states > 0 && !use) use.emplace(*state_, stream_.get());
  const size_t first_state = inputs.size() + outputs.size();
  for (size_t i = 0; i < loaded_.states; ++i) {
    const HostTensor& t = state_->memory(state_entries_[i], *stream_);
    pointers_[first_state + i] = state_->is_bound(state_entries_[i]) ? take(first_state + i, t, true) : static_cast<std::byte*>(t.data);
  }
  if (loaded_.writes) check_overlap(inputs, outputs);
  late_.assign(outputs.size(), nullptr);
  work(outputs);
  if (!device() && !loaded_.writes) return;
  bool host = from_host_;  // the caller may change host memory when run() returns, and pinned memory is read later
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (loaded_.function->bindings[i].written) host = give(i, inputs[i]) || host;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].data != nullptr) host = give(inputs.size() + o, outputs[o]) || host;
    if (late_[o] == nullptr) continue;
    stream_->copy(late_[o], staged_[inputs.size() + o].data(), late_bytes(o));
    host = true;
  }
  auto bound = [&](size_t i) -> const HostTensor* { return state_->is_bound(state_entries_[i]) ? &state_->memory(state_entries_[i], *stream_) : nullptr; };
  for (size_t i = 0; i < loaded_.states; ++i) {
    if (const HostTensor* t = bound(i)) host = give(first_state + i, *t) || host;
  }
  if (use) use->finish();
  if (!host) return;
  stream_->wait();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (loaded_.function->bindings[i].written) scatter(i, inputs[i]);
  }
  for (size_t i = 0; i < loaded_.states; ++i) {
    if (const HostTensor* t = bound(i)) scatter(first_state + i, *t);
  }
}

size_t Session::late_bytes(size_t output) const {
  size_t n = ir::size_of(loaded_.function->bindings[loaded_.inputs + output].dtype);
  for (int64_t d : routine_->dims(loaded_.inputs + output)) n *= static_cast<size_t>(d);
  return n;
}

// Returns where kernels write an output whose sizes have just been read: the caller's memory, or a block on the device if the device cannot access that.
std::byte* Session::make_late_output(size_t output, std::span<const int64_t> dims) {
  std::byte* data = output_memory_(output, dims);
  const size_t binding = loaded_.inputs + output, bytes = late_bytes(output);
  if (!device() || data == nullptr || bytes == 0 || weights_->backend().can_access(data)) return data;
  grow(staged_[binding], bytes, memory(), loaded_.function->bindings[binding].name);
  late_[output] = data;
  return staged_[binding].data();
}

// Runs a function with regions.
void Session::work_regions(std::span<const HostTensor> outputs) {
  if (stream_->recorded_by_caller()) {
    throw Error(Code::invalid_input, fmt::format("\"{}\" reads sizes or conditions from data while it runs, so it cannot be recorded into a CUDA graph", loaded_.function->name))
        .fix("call it outside of the capture");
  }
  room_.assign(pointers_.size(), 0);
  for (size_t o = 0; o < outputs.size(); ++o) room_[loaded_.inputs + o] = outputs[o].data != nullptr ? bytes_of(outputs[o]) : 0;
  const bool recording = !profiling_ && recording_ && device();
  Allocator& from = run_memory_ != nullptr ? *run_memory_ : memory();
  struct Return {
    Routine* routine;
    ~Return() {
      if (routine != nullptr) routine->give_back();
    }
  } return_at_end{run_memory_ != nullptr ? routine_.get() : nullptr};
  OutputMemory give;
  if (output_memory_) give = [this](size_t output, std::span<const int64_t> dims) { return make_late_output(output, dims); };
  routine_->run(pointers_, room_, wanted_, {set_->memory, *workers_, *stream_, from, copy_stream_.get(), give, recording, profiling_});
  for (size_t o = 0; o < outputs.size(); ++o) {
    const std::span<const int64_t> dims = routine_->dims(loaded_.inputs + o);
    output_dims_[o].assign(dims.begin(), dims.end());
  }
  if (profiling_) timed_ = routine_->timed();
}

void Session::work(std::span<const HostTensor> outputs) {
  const auto begun = std::chrono::steady_clock::now();
  work_now(outputs);
  if (copy_stream_ != nullptr && ring_bytes() > 0 && !stream_->recorded_by_caller()) copy_stream_->note_end(*stream_);
  if (profiling_) call_nanoseconds_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begun).count();
}

void Session::work_now(std::span<const HostTensor> outputs) {
  if (routine_ != nullptr) return work_regions(outputs);
  const Resolved& r = executor_.current();
  if (run_memory_ == nullptr) return work_in({arena_.data(), scratch_.data(), ring_.data()});
  size_t alignment = weights_->backend().alignment(), arena = (r.arena_bytes + alignment - 1) / alignment * alignment;
  size_t ring = ring_bytes(), bytes = ring + arena + r.scratch_bytes;  // ring_bytes() is a multiple of the alignment
  MemoryBlock block(bytes > 0 ? bytes + 64 : 0, *run_memory_);
  work_in({block.data() + ring, block.data() + ring + arena, block.data()});
}

Weights::Usage Session::memory_usage() const {
  Weights::Usage out = weights_->usage();
  const Resolved* last = executor_.last();
  out.arena = last != nullptr ? last->arena_bytes + last->scratch_bytes : 0;
  return out;
}

void Session::work_in(const RunMemory& memory) {
  const bool recording = !profiling_ && recording_ && device() && !stream_->recorded_by_caller();
  executor_.run(pointers_, memory, *workers_, *stream_, copy_stream_.get(), recording, profiling_);
  if (!profiling_) return;
  timed_.clear();
  note_times(executor_, *stream_, timed_);
}

// The address of the binding's elements in the binding's axis order: the tensor itself, or a copy (`filled`: with the tensor's elements).
std::byte* Session::take(size_t binding, const HostTensor& t, bool filled) {
  auto* data = static_cast<std::byte*>(t.data);
  const plan::Binding& b = loaded_.function->bindings[binding];
  bool plain = lies_in(b.order, t);
  if (plain && !device()) return data;
  size_t bytes = bytes_of(t);
  bool reached = weights_->backend().can_access(data);
  if ((reached && plain) || bytes == 0) return data;
  if (reached && device()) throw lies_otherwise(fmt::format("\"{}\"", b.name), b.order);
  if (!plain) {
    grow(gathered_[binding], bytes, allocator_, b.name);
    copy_strided(t, b.order, gathered_[binding].data(), true);
    data = gathered_[binding].data();
  }
  if (!device()) return data;
  grow(staged_[binding], bytes, memory(), b.name);
  if (filled) {
    stream_->copy(staged_[binding].data(), data, bytes);
    from_host_ = true;
  }
  return staged_[binding].data();
}

// Copies results from the device back to the host. True if the results end in host memory.
bool Session::give(size_t binding, const HostTensor& t) {
  size_t bytes = bytes_of(t);
  if (bytes == 0) return false;
  if (!device()) return true;
  if (weights_->backend().can_access(t.data)) return false;
  stream_->copy(lies_in(loaded_.function->bindings[binding].order, t) ? static_cast<std::byte*>(t.data) : gathered_[binding].data(), staged_[binding].data(), bytes);
  return true;
}

// Copies a dense result into the caller's strided tensor.
void Session::scatter(size_t binding, const HostTensor& t) {
  const std::vector<uint8_t>& order = loaded_.function->bindings[binding].order;
  if (!lies_in(order, t) && !(device() && weights_->backend().can_access(t.data))) copy_strided(t, order, gathered_[binding].data(), false);
}

size_t Session::state_entry(size_t index) const {
  if (index >= loaded_.states) fail(Code::invalid_input, "there is no state {}: the function has {}, counted from 0", index, loaded_.states);
  return state_entries_[index];
}

void Session::set_state(std::shared_ptr<State> state) {
  if (state != nullptr) state->check_fits(*weights_);
  state_ = state != nullptr ? std::move(state) : own_state_;
  for (size_t i = 0; i < loaded_.inputs; ++i) {
    const plan::Binding& b = loaded_.function->bindings[i];
    input_entries_[i] = b.written ? state_->input(b.name) : State::none;
  }
}

// Takes inputs that are given without memory from the state, if it has them. The state is in use from then on.
std::span<const HostTensor> Session::from_state(std::span<const HostTensor> inputs, std::optional<State::Use>& use) {
  if (inputs.size() != loaded_.inputs || std::none_of(inputs.begin(), inputs.end(), missing_data)) return inputs;
  completed_.assign(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (input_entries_[i] == State::none || !missing_data(inputs[i])) continue;
    const plan::Weight& what = state_->what(input_entries_[i]);
    if (inputs[i].dtype != what.dtype || inputs[i].rank != static_cast<int>(what.dims.size()) || !std::equal(what.dims.begin(), what.dims.end(), inputs[i].dims)) {
      throw Error(Code::invalid_input, fmt::format("input \"{}\" is given without memory as {} {}, and the state has it as {} {}", what.name, ir::torch_name_of(inputs[i].dtype),
                                                   shape_text(inputs[i]), ir::torch_name_of(what.dtype), shape_text(value_of(what, nullptr, nullptr))))
          .fix("give the sizes of the state (ingot_state_entry), or memory for the input");
    }
    if (!use) use.emplace(*state_, stream_.get());
    completed_[i] = state_->memory(input_entries_[i], *stream_);
  }
  return completed_;
}

void Session::copy_state(size_t index, void* data, size_t bytes, bool out) {
  size_t entry = state_entry(index);
  stream_->wait();
  state_->copy(entry, data, bytes, out);
}

void Session::reset() {
  stream_->wait();
  state_->reset(true);
}

// Memory that a run writes must not overlap another binding, nor itself.
void Session::check_overlap(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs) {
  const plan::Function& f = *loaded_.function;
  spans_.clear();
  for (size_t b = 0; b < f.bindings.size(); ++b) {
    const size_t s = b - inputs.size() - outputs.size();  // index of the state
    const HostTensor& t = b < inputs.size() ? inputs[b] : b < inputs.size() + outputs.size() ? outputs[b - inputs.size()] : state_->memory(state_entries_[s], *stream_);
    const bool written = f.bindings[b].written || f.bindings[b].kind == plan::Binding::Kind::state;
    auto element = static_cast<int64_t>(ir::size_of(t.dtype));
    int64_t low = 0, high = 0, row = 1;
    bool empty = t.data == nullptr;
    for (int d = t.rank; d-- > 0;) {
      empty |= t.dims[d] == 0;
      int64_t reach = (t.dims[d] - 1) * (t.strides != nullptr ? t.strides[d] : row);
      (reach < 0 ? low : high) += reach;
      row *= t.dims[d];
    }
    if (empty) continue;
    if (written && may_overlap_itself(t)) {
      throw Error(Code::invalid_input,
                  fmt::format("several elements of \"{}\" are one place in memory (expand, overlapping windows), and the model writes to it", f.bindings[b].name))
          .fix("give a clone() of it, or compile with an example of this layout");
    }
    const auto* data = static_cast<const std::byte*>(t.data);
    spans_.push_back({data + low * element, data + (high + 1) * element, b, written});
  }
  std::sort(spans_.begin(), spans_.end(), [](const Span& x, const Span& y) { return x.begin < y.begin; });
  // Among the bindings that begin earlier, the ones that end last: of all, and of the written ones.
  const Span *furthest = nullptr, *written = nullptr;
  for (const Span& s : spans_) {
    const Span* met = s.written ? furthest : written;
    if (met != nullptr && s.begin < met->end) {
      const Span &w = s.written && !(met->written && met->binding < s.binding) ? s : *met, &other = &w == &s ? *met : s;
      throw Error(Code::invalid_input, fmt::format("\"{}\" and \"{}\" share memory, and the model writes to \"{}\"", f.bindings[w.binding].name, f.bindings[other.binding].name,
                                                   f.bindings[w.binding].name))
          .fix("give memory of its own to each");
    }
    if (furthest == nullptr || s.end > furthest->end) furthest = &s;
    if (s.written && (written == nullptr || s.end > written->end)) written = &s;
  }
}

}  // namespace ingot::runtime
