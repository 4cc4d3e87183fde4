// The eager call without torch's dispatcher: from a Python tuple of tensors to a tuple of results.
//
// After a run the caches hold mostly the model, so every cache line that a call touches costs. The dispatcher's path, with its stack and lists, was most of a
// small model's overhead. Torch's DLPack exchange table (torch.Tensor.__dlpack_c_exchange_api__, torch 2.10 or later) views and creates tensors in a few
// calls. Python's functions are looked up in the process, so that this library serves every Python, and programs without one.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/huge_pages.h"
#include "torch/engines.h"

namespace {

using namespace ingot_torch;

// The parts of DLPack 1.x used here; its version is checked.
struct Version {
  uint32_t major, minor;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct View {
  void* data;
  int32_t device_type, device;
  int32_t rank;
  DataType dtype;
  const int64_t* dims;
  const int64_t* strides;
  uint64_t byte_offset;
};
struct Managed;
struct Exchange {
  Version version;
  Exchange* previous;
  int (*allocate)(View* like, Managed** out, void* context, void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from)(void* object, Managed** out);
  int (*to_object)(Managed*, void** object);
  int (*view_of)(void* object, View* out);
};
// The head of every version of Managed; `dl_tensor` follows the flags.
struct Managed {
  Version version;
  void* context;
  void (*deleter)(Managed*);
  uint64_t flags;
  View view;
};

constexpr int32_t cpu = 1, cuda = 2;

DataType data_type(ingot_dtype type) {
  switch (type) {
    case INGOT_BOOL: return {6, 8, 1};
    case INGOT_UINT8: return {1, 8, 1};
    case INGOT_INT8: return {0, 8, 1};
    case INGOT_INT16: return {0, 16, 1};
    case INGOT_INT32: return {0, 32, 1};
    case INGOT_INT64: return {0, 64, 1};
    case INGOT_FLOAT16: return {2, 16, 1};
    case INGOT_BFLOAT16: return {4, 16, 1};
    case INGOT_FLOAT32: return {2, 32, 1};
    default: return {2, 64, 1};
  }
}

// -1 for a dtype that ingot does not have.
int number_of(DataType t) {
  if (t.lanes != 1) return -1;
  for (int d = INGOT_BOOL; d <= INGOT_FLOAT64; ++d) {
    DataType mine = data_type(static_cast<ingot_dtype>(d));
    if (mine.code == t.code && mine.bits == t.bits) return d;
  }
  return -1;
}

// Functions of Python's limited API, from the interpreter in this process.
struct Python {
  void* (*tuple)(intptr_t size);
  int (*set_item)(void* tuple, intptr_t at, void* steals);
  void* (*item)(void* tuple, intptr_t at);
  intptr_t (*size)(void* tuple);
  void (*release)(void*);
  void* (*leave)();
  void (*enter)(void*);
  void (*set_error)(void* type, const char* message);
  void (*clear_error)();
  void** runtime_error;

  bool found() const { return tuple && set_item && item && size && release && leave && enter && set_error && clear_error && runtime_error; }
};

Python find_python() {
  auto at = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  Python p{};
  p.tuple = reinterpret_cast<decltype(p.tuple)>(at("PyTuple_New"));
  p.set_item = reinterpret_cast<decltype(p.set_item)>(at("PyTuple_SetItem"));
  p.item = reinterpret_cast<decltype(p.item)>(at("PyTuple_GetItem"));
  p.size = reinterpret_cast<decltype(p.size)>(at("PyTuple_Size"));
  p.release = reinterpret_cast<decltype(p.release)>(at("Py_DecRef"));
  p.leave = reinterpret_cast<decltype(p.leave)>(at("PyEval_SaveThread"));
  p.enter = reinterpret_cast<decltype(p.enter)>(at("PyEval_RestoreThread"));
  p.set_error = reinterpret_cast<decltype(p.set_error)>(at("PyErr_SetString"));
  p.clear_error = reinterpret_cast<decltype(p.clear_error)>(at("PyErr_Clear"));
  p.runtime_error = reinterpret_cast<void**>(at("PyExc_RuntimeError"));
  return p;
}

Python python;

// Releases Python's lock while a model runs.
struct Unlocked {
  void* state = python.leave();
  ~Unlocked() { python.enter(state); }
};

// A tuple under construction.
struct Results {
  void* tuple;
  ~Results() {
    if (tuple != nullptr) python.release(tuple);
  }
};

// Creates outputs that a run asks for.
class Late {
 public:
  using Allocate = ingot::FunctionRef<Managed*(size_t output, int32_t rank, const int64_t* dims)>;
  Late(size_t outputs, Allocate allocate) : allocate_(allocate), made_(outputs, nullptr) {}
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  ~Late() {
    for (size_t o = 0; o < made_.size(); ++o) drop(o);
  }
  static void* give(void* user, size_t output, const int64_t* dims, int32_t rank) {
    auto& late = *static_cast<Late*>(user);
    late.drop(output);
    Managed* memory = late.made_[output] = late.allocate_(output, rank, dims);
    return memory != nullptr ? static_cast<char*>(memory->view.data) + memory->view.byte_offset : nullptr;
  }
  Managed* take(size_t output) { return std::exchange(made_[output], nullptr); }

 private:
  void drop(size_t output) {
    if (Managed* memory = take(output); memory != nullptr && memory->deleter != nullptr) memory->deleter(memory);
  }
  Allocate allocate_;
  std::vector<Managed*> made_;
};

void* run(const Exchange& exchange, uint64_t engine, int64_t function, void* args) {
  const std::shared_ptr<Entry> entry = registered(engine);
  Lease lease(*entry, function);
  const int32_t gpu = entry->gpu, device = gpu < 0 ? cpu : cuda;
  const size_t count = static_cast<size_t>(python.size(args)), made = lease.outputs().size();
  CallTensors all(count + made);
  ingot_tensor* tensors = all.data();
  for (size_t i = 0; i < count; ++i) {
    View v{};
    if (exchange.view_of(python.item(args, static_cast<intptr_t>(i)), &v) != 0) {
      python.clear_error();
      raise(INGOT_INVALID_INPUT, "input " + std::to_string(i) + " has no memory that can be read");
    }
    const int dtype = number_of(v.dtype);
    if (dtype < 0) raise(INGOT_INVALID_INPUT, "input " + std::to_string(i) + " has a dtype that ingot does not support");
    if (v.device_type != device || (gpu >= 0 && v.device != gpu)) raise(INGOT_INVALID_INPUT, "input " + std::to_string(i) + " is not on " + device_text(gpu));
    if (gpu >= 0 && v.strides != nullptr && !is_dense_in(lease.order(i), v.rank, v.dims, v.strides)) {
      raise(INGOT_UNSUPPORTED, "input " + std::to_string(i) + " has other strides");  // ingot::run copies it
    }
    tensors[i] = ingot_tensor{};
    tensors[i].data = static_cast<char*>(v.data) + v.byte_offset;
    tensors[i].dtype = static_cast<ingot_dtype>(dtype);
    tensors[i].rank = v.rank;
    tensors[i].dims = v.dims;
    tensors[i].strides = v.strides;
  }
  check(ingot_session_resolve(lease.get(), tensors, count));
  Results results{python.tuple(static_cast<intptr_t>(made))};
  if (results.tuple == nullptr) return nullptr;
  auto allocate = [&](size_t o, int32_t rank, const int64_t* dims) {
    View like{};
    like.rank = rank;
    like.dims = dims;
    like.device_type = device;
    like.device = std::max(gpu, 0);
    like.dtype = data_type(lease.outputs()[o]);
    Managed* memory = nullptr;
    if (exchange.allocate(&like, &memory, nullptr, [](void*, const char*, const char*) {}) != 0) memory = nullptr;
    if (memory == nullptr || gpu >= 0) return memory;
    size_t bytes = like.dtype.bits / 8;
    for (int32_t d = 0; d < rank; ++d) bytes *= static_cast<size_t>(dims[d]);
    ingot::ask_for_huge_pages(static_cast<char*>(memory->view.data) + memory->view.byte_offset, bytes);
    return memory;
  };
  auto give = [&](size_t o, Managed* memory) {
    void* object = nullptr;
    if (exchange.to_object(memory, &object) != 0) return false;
    python.set_item(results.tuple, static_cast<intptr_t>(o), object);
    return true;
  };
  for (size_t o = 0; o < made; ++o) {
    ingot_tensor& t = tensors[count + o] = ingot_tensor{};
    t.dtype = lease.outputs()[o];
    check(ingot_session_output(lease.get(), o, &t.rank, &t.dims));
    if (lease.is_open(o)) {
      t = unknown_output(t.dtype, t.rank);
      continue;
    }
    Managed* memory = allocate(o, t.rank, t.dims);
    if (memory == nullptr) raise(INGOT_OUT_OF_MEMORY, "no memory for output " + std::to_string(o));
    t.data = static_cast<char*>(memory->view.data) + memory->view.byte_offset;
    t.dims = memory->view.dims;
    t.strides = memory->view.strides;
    if (!give(o, memory)) return nullptr;
  }
  // Results whose sizes become known while the model runs: created then, without Python's lock, and returned afterwards.
  std::optional<Late> late;
  if (lease.any_open()) check(ingot_session_set_output_memory(lease.get(), &Late::give, &late.emplace(made, allocate)));
  {
    Unlocked unlocked;
    check(ingot_session_run_with(lease.get(), tensors, count, tensors + count, made));
  }
  for (size_t o = 0; late && o < made; ++o) {
    if (lease.is_open(o) && !give(o, late->take(o))) return nullptr;
  }
  return std::exchange(results.tuple, nullptr);
}

}  // namespace

// `args`: a tuple of plain tensors. Returns a new tuple of results, or null with a Python exception set, whose text is that of ingot::run.
extern "C" __attribute__((visibility("default"))) void* ingot_torch_call(const void* exchange, uint64_t engine, int64_t function, void* args) {
  try {
    return run(*static_cast<const Exchange*>(exchange), engine, function, args);
  } catch (const std::exception& problem) {
    python.set_error(*python.runtime_error, problem.what());
    return nullptr;
  }
}

// Checks that ingot_torch_call can use this exchange table and this process's Python. Called before the first call.
extern "C" __attribute__((visibility("default"))) int ingot_torch_can_call(const void* exchange) {
  python = find_python();
  return python.found() && exchange != nullptr && static_cast<const Exchange*>(exchange)->version.major == 1;
}
