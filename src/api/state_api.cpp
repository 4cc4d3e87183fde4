// The part of ingot.h about states; in libingot_runtime and libingot.
#include "api/guard.h"
#include "api/handles.h"
#include "runtime/state.h"
#include "runtime/state_file.h"

using namespace ingot;
using namespace ingot::api;

namespace {

runtime::State& state_of(const ingot_state* state) { return *required(state, "state").state; }

runtime::State::Sizes sizes_of(const ingot_size* sizes, size_t count) {
  if (count > 0) required(sizes, "sizes");
  runtime::State::Sizes out;
  for (size_t i = 0; i < count; ++i) out.emplace_back(&required(sizes[i].name, "name"), sizes[i].value);
  return out;
}

size_t entry_of(const ingot_state* state, const char* name) { return state_of(state).find(&required(name, "name")); }

}  // namespace

extern "C" {

ingot_status ingot_state_create(const ingot_plan* plan, ingot_weights* weights, ingot_state** out) { return ingot_state_create_with(plan, weights, nullptr, 0, out); }

ingot_status ingot_state_create_with(const ingot_plan* plan, ingot_weights* weights, const ingot_size* sizes, size_t count, ingot_state** out) {
  return guard([&] {
    required(out, "out"), required(plan, "plan");
    if (required(weights, "weights").given != plan->plan) fail(Code::invalid_input, "these weights were made from another plan");
    auto made = std::make_shared<runtime::State>(weights->weights, system_allocator(), runtime::State::Of::shared, sizes_of(sizes, count));
    made->begin();
    *out = new ingot_state{std::move(made)};
  });
}

ingot_status ingot_state_grow(ingot_state* state, const ingot_size* sizes, size_t count) {
  return guard([&] { state_of(state).grow(sizes_of(sizes, count)); });
}

ingot_status ingot_state_count(const ingot_state* state, size_t* entries) {
  return guard([&] { required(entries, "entries") = state_of(state).size(); });
}

ingot_status ingot_state_entry(const ingot_state* state, size_t index, ingot_binding* out) {
  return guard([&] {
    const size_t all = state_of(state).size();
    if (index >= all) fail(Code::invalid_input, "there is no entry {}: the state has {}, counted from 0", index, all);
    const plan::Weight& w = state_of(state).what(index);
    required(out, "out") = {w.name.c_str(), static_cast<ingot_dtype>(w.dtype), static_cast<int32_t>(w.dims.size()), w.dims.data(), 1, nullptr};
  });
}

ingot_status ingot_state_fork(ingot_state* state, ingot_state** out) {
  return guard([&] { required(out, "out") = new ingot_state{state_of(state).fork()}; });
}

ingot_status ingot_state_copy(ingot_state* to, ingot_state* from) {
  return guard([&] { required(to, "to").state->copy_from(*required(from, "from").state); });
}

ingot_status ingot_state_reset(ingot_state* state) {
  return guard([&] { state_of(state).reset(); });
}

ingot_status ingot_state_read(ingot_state* state, const char* name, void* data, size_t bytes) {
  return guard([&] {
    const size_t entry = entry_of(state, name);
    if (bytes > 0) required(static_cast<std::byte*>(data), "data");
    state_of(state).copy(entry, data, bytes, true);
  });
}

ingot_status ingot_state_write(ingot_state* state, const char* name, const void* data, size_t bytes) {
  return guard([&] {
    const size_t entry = entry_of(state, name);
    if (bytes > 0) required(static_cast<const std::byte*>(data), "data");
    state_of(state).copy(entry, const_cast<void*>(data), bytes, false);  // only read
  });
}

ingot_status ingot_state_save(ingot_state* state, const char* path) {
  return guard([&] { runtime::save(state_of(state), &required(path, "path")); });
}

ingot_status ingot_state_load(ingot_state* state, const char* path) {
  return guard([&] { runtime::load(state_of(state), &required(path, "path")); });
}

ingot_status ingot_state_bind(ingot_state* state, const char* name, const ingot_tensor* memory) {
  return guard([&] {
    const size_t entry = entry_of(state, name);
    std::vector<runtime::HostTensor> one;
    read_tensors(&required(memory, "memory"), 1, one);
    state_of(state).bind(entry, one[0]);
  });
}

ingot_status ingot_state_tensor(ingot_state* state, const char* name, ingot_tensor* out) {
  return guard([&] {
    required(out, "out");
    const runtime::HostTensor t = state_of(state).tensor(entry_of(state, name));
    *out = {t.data, static_cast<ingot_dtype>(t.dtype), t.rank, t.dims, t.strides};
  });
}

void ingot_state_release(ingot_state* state) { delete state; }

ingot_status ingot_session_set_state(ingot_session* session, ingot_state* state) {
  return guard([&] { required(session, "session").session.set_state(state != nullptr ? state->state : nullptr); });
}

}  // extern "C"
