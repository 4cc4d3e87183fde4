// A libcuda.so.1 over memory of the host: memory, copies, streams, events, recordings and modules are kept as a driver keeps them, kernels are
// looked up and counted, and compute nothing. So what ingot asks of a driver, and what it does when the driver says no, is tested without a GPU.
// See pretend.h.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "image.h"
#include "pretend.h"
#include "state.h"

using namespace pretended;

// Each function of the table must be here, with the same arguments.
extern "C" {
#define X(name, symbol, arguments) int symbol arguments;
#include "backend/cuda/run/driver.def"
}

#define LOCKED \
  Pretend& p = pretend(); \
  std::lock_guard lock(p.mutex)

extern "C" {

void pretend_set(const char* name, long long value) {
  LOCKED;
  auto found = p.values.find(name);
  if (found == p.values.end()) std::abort();
  found->second = value;
}
long long pretend_get(const char* name) {
  LOCKED;
  auto found = p.values.find(name);
  if (found == p.values.end()) std::abort();
  return found->second;
}
void pretend_work(void* stream, long long nanoseconds, const char* line) {
  LOCKED;
  p.note(line);
  (p.recording.contains(stream) ? p.work[stream] : p.values["clock"]) += nanoseconds;
}
int pretend_call_fails() {
  LOCKED;
  return p.call_fails();
}
const char* pretend_events() {
  LOCKED;
  p.shown = p.events;
  return p.shown.c_str();
}
void pretend_forget_events() {
  LOCKED;
  p.events.clear();
}

int cuInit(unsigned) {
  LOCKED;
  return p.values["gpus"] > 0 ? success : no_device;
}
int cuDriverGetVersion(int* version) {
  LOCKED;
  *version = static_cast<int>(p.values["driver"]);
  return success;
}
int cuGetErrorName(int error, const char** text) {
  for (const Named& e : errors) {
    if (e.error == error) return *text = e.name, success;
  }
  return invalid_value;
}
int cuGetErrorString(int error, const char** text) {
  for (const Named& e : errors) {
    if (e.error == error) return *text = e.text, success;
  }
  return invalid_value;
}
int cuDeviceGetCount(int* count) {
  LOCKED;
  *count = static_cast<int>(p.values["gpus"]);
  return success;
}
int cuDeviceGet(int* device, int ordinal) {
  LOCKED;
  if (ordinal < 0 || ordinal >= p.values["gpus"] || ordinal >= most_gpus) return p.mistake(invalid_device, "a GPU that is not there");
  *device = ordinal;
  return success;
}
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "Pretend GPU");
  return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  LOCKED;
  switch (attribute) {
    case 16: *value = 16; break;          // multiprocessors
    case 38: *value = 8 << 20; break;     // L2
    case 39: *value = 2048; break;        // threads of one multiprocessor
    case 75: *value = static_cast<int>(p.values["sm"] / 10); break;
    case 76: *value = static_cast<int>(p.values["sm"] % 10); break;
    case 81: *value = 160 << 10; break;   // shared memory of one multiprocessor
    case 97: *value = 100 << 10; break;   // that one block may ask for
    default: return p.mistake(invalid_value, "attribute " + std::to_string(attribute) + " is not known here");
  }
  return success;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  LOCKED;
  *bytes = static_cast<size_t>(p.values["memory"]);
  return success;
}
int cuDevicePrimaryCtxRetain(Context* context, int device) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  ++p.retained[device];
  ++p.values["live"];
  *context = reinterpret_cast<Context>(&p.context_of[device]);
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  LOCKED;
  if (p.retained[device] == 0) return p.mistake(invalid_context, "a context that is not there is given back");
  --p.values["live"];
  bool last = --p.retained[device] == 0;
  for (const auto& [address, m] : p.memory) {
    if (last && m.context == device) return p.mistake(invalid_context, "a context ends before memory in it is given back");
  }
  return success;
}
// NVRTC asks whatever libcuda.so.1 there is for tables beyond the API, and reads their sizes: they are empty.
int cuGetExportTable(const void** table, const void*) {
  static const size_t empty = sizeof empty;
  *table = &empty;
  return success;
}
int cuCtxGetCurrent(Context* context) {
  *context = current.empty() ? nullptr : current.back();
  return success;
}
int cuCtxPushCurrent_v2(Context context) {
  LOCKED;
  if (p.values["shut_down"] != 0) return deinitialized;
  current.push_back(context);
  return success;
}
int cuCtxPopCurrent_v2(Context* context) {
  LOCKED;
  if (current.empty()) return p.mistake(invalid_context, "no context is current");
  *context = current.back();
  current.pop_back();
  return success;
}
int cuCtxSynchronize() {
  LOCKED;
  if (current_device() < 0) return p.mistake(invalid_context, "waiting without a context");
  if (p.call_fails()) return launch_failed;
  p.under_way.clear();
  p.comes_after.clear();
  return success;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  LOCKED;
  if (current_device() < 0) return p.mistake(invalid_context, "asking for memory without a context");
  *total = static_cast<size_t>(p.values["memory"]);
  *free = *total - std::min(*total, static_cast<size_t>(p.used(current_device())));
  return success;
}
int cuMemAlloc_v2(Address* memory, size_t bytes) {
  LOCKED;
  if (current_device() < 0) return p.mistake(invalid_context, "memory is asked for without a context");
  return take_memory(memory, bytes, current_device());
}
int cuMemFree_v2(Address memory) {
  LOCKED;
  return give_memory(memory, true);
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  LOCKED;
  Address address = 0;
  int error = take_memory(&address, bytes, -1);
  if (error == success) *memory = reinterpret_cast<void*>(address);
  return error;
}
int cuMemFreeHost(void* memory) {
  LOCKED;
  return give_memory(reinterpret_cast<Address>(memory), false);
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, StreamHandle stream) {
  LOCKED;
  return copy_bytes(to, reinterpret_cast<Address>(from), bytes, stream);
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, StreamHandle stream) {
  LOCKED;
  return copy_bytes(reinterpret_cast<Address>(to), from, bytes, stream);
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, StreamHandle stream) {
  LOCKED;
  return copy_bytes(to, from, bytes, stream);
}
int cuMemcpyAsync(Address to, Address from, size_t bytes, StreamHandle stream) {
  LOCKED;
  return copy_bytes(to, from, bytes, stream);
}
int cuPointerGetAttributes(unsigned count, const int* attributes, void** values, Address pointer) {
  LOCKED;
  const auto* found = p.holding(pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == 2) *static_cast<unsigned*>(values[i]) = found == nullptr ? 0 : found->second.device >= 0 ? 2 : 1;
    if (attributes[i] == 9) *static_cast<int*>(values[i]) = found == nullptr ? -2 : found->second.device;
  }
  return success;
}
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, StreamHandle stream) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  if (!p.inside(to, bytes)) return p.mistake(invalid_value, "filling leaves its memory");
  if (!p.recording.contains(stream)) std::memset(reinterpret_cast<void*>(to), value, bytes);
  return success;
}

int cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned, const int*, void**) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  images::Image i = images::read_image(image);
  auto sm = static_cast<int>(p.values["sm"]), driver = static_cast<int>(p.values["driver"]);
  int error = !i.valid || (!i.ptx && i.cuda > driver / 1000 * 1000) ? invalid_image
              : i.ptx && i.cuda > driver                            ? unsupported_ptx
              : i.sm > sm || (!i.ptx && i.sm / 10 != sm / 10)       ? no_binary_for_gpu
                                                                    : success;
  p.note(std::string("module ") + (i.ptx ? "ptx" : "cubin") + " sm_" + std::to_string(i.sm) + (error == success ? "" : " refused " + std::to_string(error)));
  if (error != success) return error;
  *module = p.fresh<ModuleHandle>();
  p.modules[*module] = {std::move(i.kernels)};
  ++p.values["live"];
  return success;
}
int cuModuleUnload(ModuleHandle module) {
  LOCKED;
  if (p.modules.erase(module) == 0) return p.mistake(invalid_handle, "a module that is not there is unloaded");
  --p.values["live"];
  return success;
}
int cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  auto found = p.modules.find(module);
  if (found == p.modules.end()) return p.mistake(invalid_handle, "a kernel of a module that is not there");
  const std::vector<std::string>& kernels = found->second.kernels;
  bool there = false;
  for (const std::string& k : kernels) there = there || k == name;
  if (!there) return not_found;
  *function = p.fresh<FunctionHandle>();
  p.functions[*function] = {name, module};
  p.note(std::string("kernel ") + name);
  return success;
}
int cuFuncGetAttribute(int* value, int, FunctionHandle) {
  *value = 0;
  return success;
}
int cuFuncSetAttribute(FunctionHandle, int, int) {
  LOCKED;
  return p.call_fails() ? launch_failed : success;
}
int cuTensorMapEncodeTiled(void*, int, unsigned, Address, const uint64_t*, const uint64_t*, const uint32_t*, const uint32_t*, int, int, int, int) {
  LOCKED;
  return p.call_fails() ? launch_failed : success;
}

int cuTensorMapEncodeIm2col(void*, int, unsigned, Address, const uint64_t*, const uint64_t*, const int*, const int*, uint32_t, uint32_t, const uint32_t*, int, int, int, int) {
  LOCKED;
  return p.call_fails() ? launch_failed : success;
}

int cuLaunchKernelEx(const LaunchConfig* config, FunctionHandle function, void**, void**) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  auto found = p.functions.find(function);
  if (found == p.functions.end() || config->gx == 0 || config->bx == 0) return p.mistake(invalid_handle, "a kernel that is not there, or without threads, is started");
  const std::string& name = found->second.name;
  if (!p.modules.contains(found->second.module)) return p.mistake(invalid_handle, "a kernel of a module that was unloaded is started");
  const bool fast = name.ends_with("_t" + std::to_string(p.values["fast_tile"]));
  const bool recorded = p.recording.contains(config->stream);
  (recorded ? p.work[config->stream] : p.values["clock"]) += p.values["launch_time"] / (fast ? 2 : 1);
  const bool joined = p.joined.erase(config->stream) > 0;
  if (p.recording.contains(config->stream)) {
    // It depends on more than the kernel before it, and only on kernels can one depend so.
    if (joined && config->attribute_count > 0) return p.mistake(invalid_value, "a kernel that overlaps others is right behind work of another stream");
    ++p.reached[config->stream].given;
    p.loaded[p.recording[config->stream]].insert(found->second.module);
    return success;
  }
  ++p.values["launches"];
  p.note("launch " + name);
  return success;
}

int cuStreamCreate(StreamHandle* stream, unsigned) {
  LOCKED;
  return make(stream, p.streams);
}
int cuStreamDestroy_v2(StreamHandle stream) {
  LOCKED;
  if (p.recording.erase(stream) > 0) return p.mistake(invalid_handle, "a stream goes while it is recorded");
  return drop(stream, p.streams, "a stream");
}
int cuStreamSynchronize(StreamHandle stream) {
  LOCKED;
  if (stream != nullptr && !p.streams.contains(stream)) return p.mistake(invalid_handle, "waiting for a stream that is gone");
  if (p.call_fails()) return launch_failed;
  p.waited_for(stream);
  return success;
}
int cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  if (stream != nullptr && !p.streams.contains(stream)) return p.mistake(invalid_handle, "a stream that is gone waits");
  ++p.values["waits"];
  if (!p.events_made.contains(event)) return p.mistake(invalid_handle, "waiting for an event that is gone");
  p.joined.insert(stream);
  if (!p.recording.contains(stream)) p.comes_after[stream].insert(p.comes_after[event].begin(), p.comes_after[event].end());
  const auto mark = p.marks.find(event);
  if (mark == p.marks.end()) return p.recording.contains(stream) ? p.mistake(invalid_value, "a stream that is recorded waits for work outside of the recording") : success;
  const auto other = p.recording.find(mark->second.stream);
  if (other == p.recording.end()) return p.mistake(invalid_value, "waiting for an event of a recording that has ended");
  p.recording.try_emplace(stream, other->second);
  if (p.recording[stream] != other->second) return p.mistake(invalid_value, "a stream that is recorded waits for another recording");
  if (stream == other->second) p.reached[other->first].joined = std::max(p.reached[other->first].joined, mark->second.given);
  return success;
}
int cuStreamBeginCapture_v2(StreamHandle stream, int) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  if (!p.streams.contains(stream) || !p.recording.try_emplace(stream, stream).second) return p.mistake(invalid_handle, "a stream that is gone, or recorded already, is recorded");
  return success;
}
int cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  LOCKED;
  *graph = nullptr;
  if (!p.recording.contains(stream) || p.recording[stream] != stream) return invalid_value;
  bool complete = true;
  std::erase_if(p.recording, [&](const auto& one) {
    if (one.second != stream) return false;
    const Pretend::Reached reached = p.reached[one.first];
    complete = complete && (one.first == stream || reached.joined == reached.given);
    p.reached.erase(one.first);
    return true;
  });
  if (!complete) return p.mistake(invalid_value, "a recording ends before a stream that is in it has come back");
  *graph = p.graph_of.contains(stream) ? p.graph_of[stream] : p.fresh<GraphHandle>();
  p.graph_of.erase(stream);
  p.graphs.insert(*graph);
  p.loaded[*graph] = std::exchange(p.loaded[stream], {});
  p.work[*graph] = std::exchange(p.work[stream], 0);
  p.copied[*graph] = std::exchange(p.copied[stream], {});
  ++p.values["live"];
  return success;
}
int cuThreadExchangeStreamCaptureMode(int*) { return success; }
int cuStreamIsCapturing(StreamHandle stream, int* status) {
  LOCKED;
  *status = p.recording.contains(stream) ? 1 : 0;
  return success;
}
int cuStreamGetCaptureInfo_v2(StreamHandle stream, int* status, uint64_t*, GraphHandle* graph, const void* const**, size_t*) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  const auto found = p.recording.find(stream);
  *status = found != p.recording.end() ? 1 : 0;
  if (found == p.recording.end()) return success;
  GraphHandle& known = p.graph_of[found->second];
  if (known == nullptr) known = p.fresh<GraphHandle>();
  *graph = known;
  return success;
}
int cuUserObjectCreate(UserObjectHandle* object, void* what, void (*destroy)(void*), unsigned references, unsigned) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  *object = p.fresh<UserObjectHandle>();
  p.user_objects[*object] = {what, destroy, references};
  ++p.values["live"];
  return success;
}
int cuUserObjectRelease(UserObjectHandle object, unsigned references) {
  LOCKED;
  if (!p.user_objects.contains(object)) return p.mistake(invalid_handle, "an object that is not there is given back");
  p.release(object, references);
  return success;
}
int cuGraphRetainUserObject(GraphHandle graph, UserObjectHandle object, unsigned references, unsigned flags) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  if (references != 1 || flags != 1 || !p.user_objects.contains(object)) return p.mistake(invalid_value, "a graph is given more than the one reference that there is");
  p.held[graph].push_back(object);
  return success;
}
int cuGraphInstantiateWithFlags(GraphExecHandle* exec, GraphHandle graph, unsigned long long) {
  LOCKED;
  if (!p.graphs.contains(graph)) return p.mistake(invalid_handle, "a recording that is gone is prepared");
  int error = make(exec, p.execs);
  if (error != success) return error;
  p.work[*exec] = p.work[graph];
  p.copied[*exec] = p.copied[graph];
  p.loaded[*exec] = p.loaded[graph];
  p.held[*exec] = p.held[graph];
  for (void* object : p.held[*exec]) ++p.user_objects.at(object).references;
  return error;
}
int cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  if (!p.execs.contains(exec)) return p.mistake(invalid_handle, "a recording that is gone is started");
  for (const auto& [address, number] : p.copied[exec]) {
    const auto found = p.memory.find(address);
    if (found == p.memory.end() || found->second.number != number) return p.mistake(invalid_value, "a recording copies from memory that was freed since");
  }
  for (void* module : p.loaded[exec]) {
    if (!p.modules.contains(module)) return p.mistake(invalid_handle, "a recording starts kernels of a module that was unloaded");
  }
  p.give_work(stream, p.copied[exec]);
  ++p.values["replays"];
  p.values["clock"] += p.work[exec];
  return success;
}
int cuGraphExecDestroy(GraphExecHandle exec) {
  LOCKED;
  p.release_held(exec);
  return drop(exec, p.execs, "a recording");
}
int cuGraphDestroy(GraphHandle graph) {
  LOCKED;
  p.release_held(graph);
  return drop(graph, p.graphs, "a graph");
}

int cuEventCreate(EventHandle* event, unsigned) {
  LOCKED;
  return make(event, p.events_made);
}
int cuEventDestroy_v2(EventHandle event) {
  LOCKED;
  return drop(event, p.events_made, "an event");
}
int cuEventRecord(EventHandle event, StreamHandle stream) {
  LOCKED;
  if (p.call_fails()) return launch_failed;
  p.times[event] = p.values["clock"];
  p.marks.erase(event);
  p.comes_after[event] = p.comes_after[stream];
  if (p.recording.contains(stream)) p.marks[event] = {stream, p.reached[stream].given};
  return p.events_made.contains(event) ? success : p.mistake(invalid_handle, "an event that is gone is recorded");
}
int cuEventSynchronize(EventHandle event) {
  LOCKED;
  if (!p.events_made.contains(event)) return p.mistake(invalid_handle, "waiting for an event that is gone");
  p.waited_for(event);
  return success;
}
int cuEventElapsedTime(float* milliseconds, EventHandle from, EventHandle to) {
  LOCKED;
  *milliseconds = static_cast<float>(p.times[to] - p.times[from]) * 1e-6f;
  return success;
}

}  // extern "C"

namespace {

// The linker says when one is missing.
[[maybe_unused]] void* const all[] = {
#define X(name, symbol, arguments) reinterpret_cast<void*>(&symbol),
#include "backend/cuda/run/driver.def"
};

}  // namespace
