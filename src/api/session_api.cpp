// The part of ingot.h about sessions, which programs call in every run; in libingot_runtime and libingot.
#include "api/guard.h"
#include "api/handles.h"

namespace ingot::api {

void read_tensors(const ingot_tensor* tensors, size_t count, std::vector<runtime::HostTensor>& out) {
  if (count > 0) required(tensors, "tensors");
  out.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const ingot_tensor& t = tensors[i];
    if (t.rank < 0 || t.rank > 24) fail(Code::invalid_input, "tensor {} has rank {}: 0 to 24 are possible", i, t.rank);
    if (t.rank > 0 && t.dims == nullptr) fail(Code::invalid_input, "tensor {} has rank {} and no sizes: dims is NULL", i, t.rank);
    if (static_cast<int>(t.dtype) < 0 || static_cast<int>(t.dtype) > INGOT_FLOAT64) fail(Code::invalid_input, "tensor {} has the unknown dtype {}", i, static_cast<int>(t.dtype));
    for (int32_t d = 0; d < t.rank; ++d) {
      if (t.dims[d] < 0) fail(Code::invalid_input, "tensor {} has size {} on axis {}", i, t.dims[d], d);
    }
    out[i] = {t.data, static_cast<ir::DType>(t.dtype), t.rank, t.dims, t.strides};
  }
}

}  // namespace ingot::api

using namespace ingot;
using namespace ingot::api;

extern "C" {

ingot_status ingot_session_create(const ingot_plan* plan, ingot_weights* weights, uint32_t function, const ingot_options* options, ingot_session** out) {
  return guard([&] {
    required(out, "out");
    function_of(required(plan, "plan"), function);
    if (required(weights, "weights").given != plan->plan) fail(Code::invalid_input, "these weights were made from another plan");
    *out = new ingot_session{weights->weights->shared_plan(), runtime::Session(weights->weights, function, workers_of(options)), {}, {}, {}, {}};
    if (options == nullptr) return;
    (*out)->session.set_recording(options->values.text("cuda_graphs") == "true");
    (*out)->session.set_keeping(options->values.text("arena") == "session");
  });
}

ingot_status ingot_session_resolve(ingot_session* session, const ingot_tensor* inputs, size_t count) {
  return guard([&] {
    read_tensors(inputs, count, required(session, "session").inputs);
    session->output_dims = session->session.resolve(session->inputs);
  });
}

ingot_status ingot_session_output(const ingot_session* session, size_t index, int32_t* rank, const int64_t** dims) {
  return guard([&] {
    const auto& all = required(session, "session").output_dims;
    if (index >= all.size()) fail(Code::invalid_input, "there is no resolved output {}", index);
    required(rank, "rank"), required(dims, "dims");
    *rank = static_cast<int32_t>(all[index].size());
    *dims = all[index].data();
  });
}

ingot_status ingot_session_run_with(ingot_session* session, const ingot_tensor* inputs, size_t input_count, const ingot_tensor* outputs, size_t output_count) {
  return guard([&] {
    read_tensors(inputs, input_count, required(session, "session").inputs);
    read_tensors(outputs, output_count, session->outputs);
    session->session.run(session->inputs, session->outputs);
    for (size_t o = 0; o < session->outputs.size(); ++o) {
      if (!session->session.is_open(o)) continue;
      session->output_dims.resize(session->outputs.size());
      session->output_dims[o] = session->session.output_dims(o);
    }
  });
}

ingot_status ingot_session_set_output_memory(ingot_session* session, ingot_output_memory give, void* user) {
  return guard([&] {
    runtime::Session& s = required(session, "session").session;
    if (give == nullptr) return s.set_output_memory({});
    s.set_output_memory([give, user](size_t output, std::span<const int64_t> dims) {
      int64_t elements = 1;
      for (int64_t d : dims) elements *= d;
      auto* memory = static_cast<std::byte*>(give(user, output, dims.data(), static_cast<int32_t>(dims.size())));
      if (memory == nullptr && elements > 0)
        throw Error(Code::out_of_memory, fmt::format("there is no memory for output {}, of {} elements", output, elements)).fix("use smaller inputs, or free memory");
      return memory;
    });
  });
}

ingot_status ingot_session_set_weights(ingot_session* session, ingot_weights* weights) {
  return guard([&] { required(session, "session").session.set_weights(required(weights, "weights").weights); });
}

ingot_status ingot_session_bind_state(ingot_session* session, size_t index, const ingot_tensor* memory) {
  return guard([&] {
    std::vector<runtime::HostTensor> one;
    read_tensors(&required(memory, "memory"), 1, one);
    required(session, "session").session.bind_state(index, one[0]);
  });
}

ingot_status ingot_session_state(ingot_session* session, size_t index, void* data, size_t bytes, int into_session) {
  return guard([&] {
    if (bytes > 0) required(static_cast<std::byte*>(data), "data");
    required(session, "session").session.copy_state(index, data, bytes, into_session == 0);
  });
}

ingot_status ingot_session_reset(ingot_session* session) {
  return guard([&] { required(session, "session").session.reset(); });
}

ingot_status ingot_session_set_stream(ingot_session* session, void* stream) {
  return guard([&] { required(session, "session").session.set_stream(stream); });
}

ingot_status ingot_session_set_allocator(ingot_session* session, const ingot_allocator* allocator) {
  return guard([&] {
    ingot_session& s = required(session, "session");
    if (allocator != nullptr && (allocator->allocate == nullptr || allocator->release == nullptr)) fail(Code::invalid_input, "an allocator needs both of its functions");
    s.run_memory = allocator == nullptr ? nullptr : std::make_unique<CallersMemory>(*allocator);
    s.session.set_run_memory(s.run_memory.get());
  });
}

ingot_status ingot_session_memory(const ingot_session* session, ingot_memory* out) {
  return guard([&] { required(out, "out") = memory_of(required(session, "session").session.memory_usage()); });
}

ingot_status ingot_session_wait(ingot_session* session) {
  return guard([&] { required(session, "session").session.wait(); });
}

ingot_status ingot_session_profile(ingot_session* session, int on, char** json) {
  return guard([&] {
    required(session, "session").session.set_profiling(on != 0);
    if (json != nullptr) *json = give_text(session->session.profile());
  });
}

ingot_status ingot_session_trace(ingot_session* session, char** json) {
  return guard([&] { required(json, "json") = give_text(required(session, "session").session.trace()); });
}

void ingot_session_release(ingot_session* session) { delete session; }

}  // extern "C"
