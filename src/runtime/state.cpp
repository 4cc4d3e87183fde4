#include "runtime/state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/strided.h"

namespace ingot::runtime {

State::State(std::shared_ptr<Weights> weights, Allocator& allocator, Of of, Sizes sizes) : weights_(std::move(weights)), allocator_(allocator), of_(of), sizes_(std::move(sizes)) {
  std::vector<bool> seen(weights_->plan().weights.size());
  for (const plan::Function& f : weights_->plan().functions) {
    for (const plan::Binding& b : f.bindings) {
      if (b.kind != plan::Binding::Kind::state || seen[b.weight]) continue;
      seen[b.weight] = true;
      Entry& e = entries_.emplace_back();
      e.weight = b.weight;
      e.what = weights_->plan().weights[b.weight];
    }
  }
  if (of_ == Of::shared) {
    for (plan::Weight& input : inputs_at(sizes_)) entries_.emplace_back().what = std::move(input);
  }
  for (Entry& e : entries_) e.memory = value_of(e.what, nullptr, nullptr);
}

void StateUsers::enter() {
  if (!used_.exchange(true, std::memory_order_acquire)) return;
  throw Error(Code::invalid_input, "the state is in use: another run or call with it has not returned")
      .fix("use it in one session after another, or give each session a state of its own (ingot_state_fork)");
}

void StateUsers::begin(const backend::Backend& device, const backend::Stream& stream) {
  if (lost_) {
    device.synchronize();
  } else if (last_ != nullptr) {
    stream.come_after(*last_);
  }
  if (last_ == nullptr) last_ = stream.new_point();
  lost_ = true;
}

void StateUsers::set_end(const backend::Stream& stream) {
  stream.set(*last_);
  lost_ = false;
}

State::Use::Use(State& state, const backend::Stream* stream) : state_(state), claim_(state.users_) {
  if (stream == nullptr || state.of_ == Of::one_session || !state.on_device() || stream->recorded_by_caller()) return;
  state.users_.begin(state.weights_->backend(), *stream);
  stream_ = stream;
}

void State::Use::finish() {
  if (stream_ != nullptr) state_.users_.set_end(*stream_);
}

size_t State::input(std::string_view name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (is_input(i) && entries_[i].what.name == name) return i;
  }
  return none;
}

size_t State::entry_of(uint32_t weight) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].weight == weight) return i;
  }
  fail(Code::internal, "weight {} of the plan is not a state", weight);
}

size_t State::find(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const plan::Weight& w = what(i);
    if (w.is_named(name)) return i;
    names += (names.empty() ? "" : ", ") + w.name;
  }
  throw Error(Code::invalid_input, fmt::format("the state has no entry \"{}\"", name)).fix("its entries are " + (names.empty() ? "none: the plan writes no buffers" : names));
}

void State::check_fits(const Weights& weights) const {
  if (&weights.plan() == &weights_->plan() && weights.backend().ordinal() == weights_->backend().ordinal()) return;
  throw Error(Code::invalid_input, "the state was made for another plan, or on another device").fix("make it from the session's own plan and weights (ingot_state_create)");
}

// Runs `work` in a stream of its own on the device.
void State::with_stream(FunctionRef<void(backend::Stream&)> work) {
  std::unique_ptr<backend::Stream> stream = weights_->backend().new_stream();
  Use use(*this, stream.get());
  work(*stream);
  stream->wait();
  use.finish();
}

const std::byte* State::first_value(const Entry& e) const {
  std::shared_ptr<const Weights::Set> set = weights_->current();
  return set != nullptr && e.weight != no_weight ? set->values[e.weight] : nullptr;
}

void State::no_first_value(const Entry& e, const char* remedy) {
  throw Error(Code::invalid_input, fmt::format("state \"{}\" has no first value: the plan was saved without it", e.what.name)).fix(remedy);
}

// The first value, dense; from `zeros` if no weight gives it. Null: there is none.
const std::byte* State::begins_with(const Entry& e, MemoryBlock& zeros) const {
  if (e.weight != no_weight) return first_value(e);
  zeros = MemoryBlock(std::max<size_t>(e.what.bytes, 1), allocator_);
  std::memset(zeros.data(), 0, e.what.bytes);
  return zeros.data();
}

MemoryBlock State::room(const plan::Weight& w) const { return reserve(std::max<size_t>(w.bytes, 1), on_device() ? *weights_->backend().memory() : allocator_, w.name); }

void State::keep_memory(Entry& e, MemoryBlock own) {
  e.own = std::move(own);
  e.memory = value_of(e.what, e.own.data(), nullptr);
  e.bound = false;
  e.strides.clear();
}

const HostTensor& State::memory(size_t entry, backend::Stream& stream) {
  Entry& e = entries_[entry];
  if (e.memory.data != nullptr) return e.memory;
  MemoryBlock zeros;
  const std::byte* value = begins_with(e, zeros);
  if (value == nullptr && e.what.bytes > 0) {
    no_first_value(e, "give it with ingot_weights_set before committing, write it with ingot_state_write, or bind memory with ingot_session_bind_state");
  }
  MemoryBlock own = room(e.what);
  stream.copy(own.data(), value, e.what.bytes);
  keep_memory(e, std::move(own));
  return e.memory;
}

void State::begin() {
  with_stream([&](backend::Stream& stream) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (first_value(entries_[i]) != nullptr) memory(i, stream);
    }
  });
}

void State::bind(size_t entry, const HostTensor& t) {
  const plan::Weight& w = what(entry);
  Use use(*this);
  Entry& e = entries_[entry];
  if (t.data == nullptr) {
    if (e.bound) keep_memory(e, MemoryBlock());
    return;
  }
  const bool fits = t.dtype == w.dtype && t.rank == static_cast<int>(w.dims.size()) && std::equal(w.dims.begin(), w.dims.end(), t.dims);
  if (!fits) {
    throw Error(Code::invalid_input, fmt::format("the memory given for state \"{}\" ({} {}) does not have its dtype and shape", w.name, ir::torch_name_of(t.dtype), shape_text(t)))
        .fix(fmt::format("give {} {}", ir::torch_name_of(w.dtype), shape_text(value_of(w, nullptr, nullptr))));
  }
  if (t.strides != nullptr) e.strides.assign(t.strides, t.strides + t.rank);
  e.own = MemoryBlock();
  e.bound = true;
  e.memory = value_of(w, t.data, t.strides != nullptr ? e.strides.data() : nullptr);
}

// Strided memory is not copied on a GPU.
void State::check_reachable(const Entry& e) const {
  if (is_dense_in({}, e.memory) || !on_device() || !weights_->backend().can_access(e.memory.data)) return;
  throw wrong_order(fmt::format("state \"{}\"", e.what.name), {});
}

// Copies between an entry and dense memory.
void State::transfer(const Entry& e, void* dense, bool out, backend::Stream& stream) const {
  const size_t bytes = bytes_of(e.memory);
  if (is_dense_in({}, e.memory)) return stream.copy(out ? dense : e.memory.data, out ? e.memory.data : dense, bytes);
  check_reachable(e);
  MemoryBlock between(bytes, allocator_);
  if (out) copy_strided(e.memory, {}, between.data(), true);
  stream.copy(out ? dense : between.data(), out ? between.data() : dense, bytes);
  stream.wait();
  if (!out) copy_strided(e.memory, {}, between.data(), false);
}

void State::copy(size_t entry, void* data, size_t bytes, bool out) {
  const plan::Weight& w = what(entry);
  if (bytes != w.bytes) {
    throw Error(Code::invalid_input, fmt::format("state \"{}\" has {} bytes, but {} are given", w.name, w.bytes, bytes))
        .fix(fmt::format("give memory for {} {}", ir::torch_name_of(w.dtype), shape_text(value_of(w, nullptr, nullptr))));
  }
  with_stream([&](backend::Stream& stream) {
    Entry& e = entries_[entry];
    if (e.memory.data != nullptr) return transfer(e, data, out, stream);
    if (out) return transfer((memory(entry, stream), e), data, out, stream);
    MemoryBlock own = room(e.what);
    stream.copy(own.data(), data, bytes);
    keep_memory(e, std::move(own));
  });
}

void State::copy_all(std::byte* data, bool out) {
  with_stream([&](backend::Stream& stream) {
    std::vector<MemoryBlock> made(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (out) memory(i, stream);
      check_reachable(entries_[i]);
      if (entries_[i].memory.data == nullptr) made[i] = room(entries_[i].what);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (made[i].data() != nullptr) keep_memory(entries_[i], std::move(made[i]));
      transfer(entries_[i], data, out, stream);
      data += bytes_of(entries_[i].memory);
    }
  });
}

void State::reset(bool own_only) {
  with_stream([&](backend::Stream& stream) {
    auto changes = [&](const Entry& e) { return e.memory.data != nullptr && !(e.bound && own_only) && e.what.bytes > 0; };
    for (const Entry& e : entries_) {
      if (!changes(e)) continue;
      check_reachable(e);
      if (e.weight != no_weight && first_value(e) == nullptr) no_first_value(e, "give it with ingot_weights_set before committing, or write the entries one by one");
    }
    for (const Entry& e : entries_) {
      MemoryBlock zeros;
      if (changes(e)) transfer(e, const_cast<std::byte*>(begins_with(e, zeros)), false, stream);
    }
  });
}

std::shared_ptr<State> State::fork() {
  auto made = std::make_shared<State>(weights_, allocator_, Of::shared, sizes_);
  with_stream([&](backend::Stream& stream) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].memory.data == nullptr) continue;
      MemoryBlock own = room(entries_[i].what);
      transfer(entries_[i], own.data(), true, stream);
      made->keep_memory(made->entries_[i], std::move(own));
    }
  });
  return made;
}

void State::copy_from(State& other) {
  if (&other == this) return;
  check_fits(*other.weights_);
  with_stream([&](backend::Stream& stream) {
    Use theirs(other, &stream);
    std::vector<MemoryBlock> made(entries_.size());
    auto idle = [&](size_t i) { return is_input(i) && entries_[i].memory.data == nullptr && other.entries_[i].memory.data == nullptr; };
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].what.dims != other.entries_[i].what.dims) {
        throw Error(Code::invalid_input, fmt::format("entry \"{}\" is {} here and {} there", what(i).name, shape_text(entries_[i].memory), shape_text(other.entries_[i].memory)))
            .fix("make the state with the other's sizes, or let it grow (ingot_state_grow)");
      }
      if (idle(i)) continue;
      other.memory(i, stream);
      check_reachable(other.entries_[i]);
      check_reachable(entries_[i]);
      if (entries_[i].memory.data == nullptr) made[i] = room(entries_[i].what);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (idle(i)) continue;
      Entry &to = entries_[i], &from = other.entries_[i];
      if (made[i].data() != nullptr) keep_memory(to, std::move(made[i]));
      // A strided tensor of the caller is on the host: copy through it, so that the other side may be anywhere.
      if (is_dense_in({}, from.memory)) {
        transfer(to, from.memory.data, false, stream);
      } else if (is_dense_in({}, to.memory)) {
        transfer(from, to.memory.data, true, stream);
      } else {
        MemoryBlock between(bytes_of(to.memory), allocator_);
        transfer(from, between.data(), true, stream);
        transfer(to, between.data(), false, stream);
      }
    }
    stream.wait();
    theirs.finish();
  });
}

HostTensor State::tensor(size_t entry) {
  HostTensor found;
  with_stream([&](backend::Stream& stream) { found = memory(entry, stream); });
  return found;
}

}  // namespace ingot::runtime
