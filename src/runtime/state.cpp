#include "runtime/state.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/strided.h"

namespace ingot::runtime {

State::State(std::shared_ptr<Weights> weights, Allocator& allocator, Of of) : weights_(std::move(weights)), allocator_(allocator), of_(of) {
  std::vector<bool> seen(weights_->plan().weights.size());
  for (const plan::Function& f : weights_->plan().functions) {
    for (const plan::Binding& b : f.bindings) {
      if (b.kind != plan::Binding::Kind::state || seen[b.weight]) continue;
      seen[b.weight] = true;
      Entry& e = entries_.emplace_back();
      e.weight = b.weight;
      e.memory = value_of(weights_->plan().weights[b.weight], nullptr, nullptr);
    }
  }
}

State::Use::Claim::Claim(State& state) : state_(state) {
  if (!state.used_.exchange(true, std::memory_order_acquire)) return;
  throw Error(Code::invalid_input, "the state is in use: another run or call with it has not returned")
      .fix("use it in one session after another, or give each session a state of its own (ingot_state_fork)");
}

State::Use::Use(State& state, const backend::Stream* stream) : state_(state), claim_(state) {
  if (stream == nullptr || state.of_ == Of::one_session || !state.on_device() || stream->recorded_by_caller()) return;
  if (state.lost_) {
    state.weights_->backend().synchronize();
  } else if (state.last_ != nullptr) {
    stream->come_after(*state.last_);
  }
  if (state.last_ == nullptr) state.last_ = stream->new_point();
  state.lost_ = true;
  stream_ = stream;
}

void State::Use::finish() {
  if (stream_ == nullptr) return;
  stream_->set(*state_.last_);
  state_.lost_ = false;
}

size_t State::entry_of(uint32_t weight) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].weight == weight) return i;
  }
  fail(Code::internal, "weight {} of the plan is no state", weight);
}

size_t State::find(std::string_view name) const {
  std::string names;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const plan::Weight& w = weight(i);
    if (w.name == name || w.tied_to == name) return i;
    names += (names.empty() ? "" : ", ") + w.name;
  }
  throw Error(Code::invalid_input, fmt::format("the state has no entry \"{}\"", name)).fix("its entries are " + (names.empty() ? "none: the plan writes no buffers" : names));
}

void State::check_fits(const Weights& weights) const {
  if (&weights.plan() == &weights_->plan() && weights.backend().ordinal() == weights_->backend().ordinal()) return;
  throw Error(Code::invalid_input, "the state was made for another plan, or on another device").fix("make it from the session's own plan and weights (ingot_state_create)");
}

// On a device, from its own stream.
void State::with_stream(FunctionRef<void(backend::Stream&)> work) {
  std::unique_ptr<backend::Stream> stream = weights_->backend().new_stream();
  Use use(*this, stream.get());
  work(*stream);
  stream->wait();
  use.finish();
}

const std::byte* State::first_value(const Entry& e) const {
  std::shared_ptr<const Weights::Set> set = weights_->current();
  return set != nullptr ? set->values[e.weight] : nullptr;
}

MemoryBlock State::room(const Entry& e) const {
  const plan::Weight& w = weights_->plan().weights[e.weight];
  return reserve(std::max<size_t>(w.bytes, 1), on_device() ? *weights_->backend().memory() : allocator_, w.name);
}

void State::settle(Entry& e, MemoryBlock own) const {
  e.own = std::move(own);
  e.memory = value_of(weights_->plan().weights[e.weight], e.own.data(), nullptr);
  e.bound = false;
  e.strides.clear();
}

const HostTensor& State::memory(size_t entry, backend::Stream& stream) {
  Entry& e = entries_[entry];
  if (e.memory.data != nullptr) return e.memory;
  const std::byte* value = first_value(e);
  if (value == nullptr && bytes_of(e.memory) > 0) {
    throw Error(Code::invalid_input, fmt::format("state \"{}\" has no first value: the plan was saved without it", weight(entry).name))
        .fix("give it with ingot_weights_set before committing, write it with ingot_state_write, or bind memory with ingot_session_bind_state");
  }
  MemoryBlock own = room(e);
  stream.copy(own.data(), value, bytes_of(e.memory));
  settle(e, std::move(own));
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
  const plan::Weight& w = weight(entry);
  Use use(*this);
  Entry& e = entries_[entry];
  if (t.data == nullptr) {
    if (e.bound) settle(e, MemoryBlock());
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

// On a GPU, nothing here copies memory with strides.
void State::check_reachable(const Entry& e) const {
  if (lies_in({}, e.memory) || !on_device() || !weights_->backend().can_access(e.memory.data)) return;
  throw lies_otherwise(fmt::format("state \"{}\"", weights_->plan().weights[e.weight].name), {});
}

// Between where an entry lies and dense memory.
void State::transfer(const Entry& e, void* dense, bool out, backend::Stream& stream) const {
  const size_t bytes = bytes_of(e.memory);
  if (lies_in({}, e.memory)) return stream.copy(out ? dense : e.memory.data, out ? e.memory.data : dense, bytes);
  check_reachable(e);
  MemoryBlock between(bytes, allocator_);
  if (out) copy_strided(e.memory, {}, between.data(), true);
  stream.copy(out ? dense : between.data(), out ? between.data() : dense, bytes);
  stream.wait();
  if (!out) copy_strided(e.memory, {}, between.data(), false);
}

void State::copy(size_t entry, void* data, size_t bytes, bool out) {
  const plan::Weight& w = weight(entry);
  if (bytes != w.bytes) {
    throw Error(Code::invalid_input, fmt::format("state \"{}\" has {} bytes, but {} are given", w.name, w.bytes, bytes))
        .fix(fmt::format("give memory for {} {}", ir::torch_name_of(w.dtype), shape_text(value_of(w, nullptr, nullptr))));
  }
  with_stream([&](backend::Stream& stream) {
    Entry& e = entries_[entry];
    if (e.memory.data != nullptr) return transfer(e, data, out, stream);
    if (out) return transfer((memory(entry, stream), e), data, out, stream);
    MemoryBlock own = room(e);
    stream.copy(own.data(), data, bytes);
    settle(e, std::move(own));
  });
}

void State::copy_all(std::byte* data, bool out) {
  with_stream([&](backend::Stream& stream) {
    std::vector<MemoryBlock> made(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (out) memory(i, stream);
      check_reachable(entries_[i]);
      if (entries_[i].memory.data == nullptr) made[i] = room(entries_[i]);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (made[i].data() != nullptr) settle(entries_[i], std::move(made[i]));
      transfer(entries_[i], data, out, stream);
      data += bytes_of(entries_[i].memory);
    }
  });
}

void State::reset(bool own_only) {
  with_stream([&](backend::Stream& stream) {
    auto changes = [&](const Entry& e) { return e.memory.data != nullptr && !(e.bound && own_only) && bytes_of(e.memory) > 0; };
    for (const Entry& e : entries_) {
      if (!changes(e)) continue;
      check_reachable(e);
      if (first_value(e) != nullptr) continue;
      throw Error(Code::invalid_input, fmt::format("state \"{}\" has no first value: the plan was saved without it", weights_->plan().weights[e.weight].name))
          .fix("give it with ingot_weights_set before committing, or write the entries one by one");
    }
    for (const Entry& e : entries_) {
      if (changes(e)) transfer(e, const_cast<std::byte*>(first_value(e)), false, stream);
    }
  });
}

std::shared_ptr<State> State::fork() {
  auto made = std::make_shared<State>(weights_, allocator_, Of::shared);
  with_stream([&](backend::Stream& stream) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].memory.data == nullptr) continue;
      MemoryBlock own = room(entries_[i]);
      transfer(entries_[i], own.data(), true, stream);
      made->settle(made->entries_[i], std::move(own));
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
    for (size_t i = 0; i < entries_.size(); ++i) {
      other.memory(i, stream);
      check_reachable(other.entries_[i]);
      check_reachable(entries_[i]);
      if (entries_[i].memory.data == nullptr) made[i] = room(entries_[i]);
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      Entry &to = entries_[i], &from = other.entries_[i];
      if (made[i].data() != nullptr) settle(to, std::move(made[i]));
      // A strided side of the caller's is on the host: through it, so that the other may be where it likes.
      if (lies_in({}, from.memory)) {
        transfer(to, from.memory.data, false, stream);
      } else if (lies_in({}, to.memory)) {
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
