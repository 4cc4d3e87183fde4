// Plans inside saved programs. Torch does not report when a program is destroyed, so nothing here is assumed to be alive: a call's tensors are compared with
// those that were prepared, and of many programs the least recently called ones are dropped. Tensors are compared by identity, not by address: those from
// which something was prepared are kept, so that no others get their addresses, until another program comes.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "torch/saved.h"

#include "base/fork.h"
#include "base/plan_mark.h"
#include "torch/versions.h"

namespace ingot_torch {

namespace {

constexpr size_t header_bytes = 128;  // of a plan's header (plan/file.h), which contains the hashes of the rest
constexpr size_t max_programs = 1024;

// An at::Tensor is a pointer to an object that all its copies share.
const void* shared_by_copies(const Tensor& tensor) {
  const void* shared = nullptr;
  std::memcpy(&shared, tensor.get(), sizeof shared);
  return shared;
}

// The device of a weight: each may be on another one.
int32_t gpu_of(const Tensor& t) { return t.is_cuda() ? t.get_device_index() : -1; }

// Another tensor of the same storage.
Tensor alias_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  TensorHandle handle = nullptr;
  if (aoti_torch__reinterpret_tensor(tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), tensor.storage_offset(), &handle) != 0) {
    raise(INGOT_INVALID_INPUT, "ingot::execute: a weight has no memory that can be kept");
  }
  return Tensor(handle);
}

// Identifies a value of a weight: the tensor itself and, as `tensor.data` can be replaced, its memory. Writes that torch does not count (through `.data`,
// NumPy or other users of the memory) change the sample, or go unnoticed.
struct Value {
  Tensor tensor;
  Tensor memory;  // keeps the memory alive, whatever happens to `tensor`
  const void* data = nullptr;
  std::optional<int64_t> version;     // tensors of torch.inference_mode have none
  int32_t gpu = -1;                   // the device; -1: the CPU
  bool in_order = false;              // in the axis order that the plan reads
  std::array<uint64_t, 3> sample{};   // if so, of its first, middle and last bytes; not on a GPU, where reading them would wait for the device
  std::vector<int64_t> strides;
};

std::array<uint64_t, 3> sample_of(const void* data, size_t bytes) {
  std::array<uint64_t, 3> out{};
  if (data == nullptr) return out;
  size_t word = std::min(bytes, sizeof(uint64_t));
  const auto* first = static_cast<const char*>(data);
  std::memcpy(&out[0], first, word);
  std::memcpy(&out[1], first + (bytes - word) / 2, word);
  std::memcpy(&out[2], first + (bytes - word), word);
  return out;
}

struct Description {
  std::string name;
  ingot_dtype dtype;
  std::vector<int64_t> dims;
  Order order;
  int64_t elements = 1;
  size_t bytes = 0;
};

size_t size_of(ingot_dtype dtype) {
  switch (dtype) {
    case INGOT_BOOL:
    case INGOT_UINT8:
    case INGOT_INT8: return 1;
    case INGOT_INT16:
    case INGOT_FLOAT16:
    case INGOT_BFLOAT16: return 2;
    case INGOT_INT32:
    case INGOT_FLOAT32: return 4;
    default: return 8;
  }
}

// A plan, read from a copy of its bytes: the tensor may be destroyed before a running call ends.
struct Plan {
  std::vector<std::max_align_t> bytes;
  size_t size = 0;
  ingot_plan* handle = nullptr;
  std::vector<Description> weights;  // from calls; states are arguments too, so their first values are not needed

  explicit Plan(const Tensor& tensor);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() { ingot_plan_release(handle); }
};

// Weights prepared from one set of tensors.
struct Prepared {
  std::shared_ptr<const Plan> of;
  ingot_weights* weights = nullptr;
  std::vector<Value> values;
  std::vector<Tensor> copied;  // on a GPU: copies of those in another axis order
  std::shared_ptr<void> pool;

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    pool.reset();
    ingot_weights_release(weights);
  }
};

// The tensor from which a plan was read, kept so that no other tensor can be mistaken for it. Released when the next program
// comes, as it may have no other owner by then.
struct Source {
  std::optional<Tensor> tensor;
  std::optional<int64_t> version;

  Source() = default;
  explicit Source(const Tensor& from) : tensor(from), version(version_of(from)) {}
  bool is(const Tensor& given) const { return tensor && shared_by_copies(*tensor) == shared_by_copies(given) && (!version || version_of(given) == version); }
};

struct Program {
  const void* address = nullptr;
  std::shared_ptr<const Plan> plan;
  Source source;  // guarded by programs_mutex
  ingot::LongMutex preparing;
  ingot::SharedMutex swapping;
  std::shared_ptr<Prepared> prepared;
  std::atomic<uint64_t> last_call = 0;

  std::shared_ptr<Prepared> current() {
    std::shared_lock lock(swapping);
    return prepared;
  }
  // The caller must destroy the result without holding a lock: that may run code of the weights' owner.
  std::shared_ptr<Prepared> exchange(std::shared_ptr<Prepared> with) {
    std::unique_lock lock(swapping);
    return std::exchange(prepared, std::move(with));
  }

  // True if the tensor has the plan's bytes: all, or just its header.
  bool holds(const Tensor& tensor, bool all) const {
    return static_cast<size_t>(tensor.numel()) == plan->size && std::memcmp(plan->bytes.data(), tensor.const_data_ptr(), all ? plan->size : header_bytes) == 0;
  }
  // For the tensor from which it was read, the header is enough: writes to it are counted.
  bool is(const Tensor& tensor) const { return source.is(tensor) && holds(tensor, false); }
};

ingot::SharedMutex programs_mutex;
std::unordered_map<const void*, std::shared_ptr<Program>>& programs() {
  static auto* all = new std::unordered_map<const void*, std::shared_ptr<Program>>;  // never destroyed: late calls are possible
  return *all;
}
std::atomic<uint64_t> calls = 0;

std::string text_of(const std::vector<int64_t>& dims) {
  std::string s = "[";
  for (size_t d = 0; d < dims.size(); ++d) s += (d ? ", " : "") + std::to_string(dims[d]);
  return s + "]";
}

const char* name_of(ingot_dtype dtype) {
  static const char* names[] = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
  return names[dtype];
}

void check_weights(const Plan& plan, const std::vector<Tensor>& given) {
  if (given.size() != plan.weights.size()) {
    std::string names;
    for (const Description& w : plan.weights) names += (names.empty() ? "" : ", ") + w.name;
    raise(INGOT_INVALID_INPUT, "ingot::execute: the plan needs " + std::to_string(plan.weights.size()) + " weights (" + names + "), but " + std::to_string(given.size()) +
                                   (given.size() == 1 ? " is given" : " are given"));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const Description& w = plan.weights[i];
    ingot_tensor t = view(given[i], false, gpu_of(given[i]));
    std::vector<int64_t> dims(t.dims, t.dims + t.rank);
    if (t.dtype == w.dtype && dims == w.dims) continue;
    raise(INGOT_INVALID_INPUT,
          "ingot::execute: weight \"" + w.name + "\" is " + name_of(t.dtype) + " " + text_of(dims) + ", but the plan was built for " + name_of(w.dtype) + " " + text_of(w.dims));
  }
}

Value value_of(const Tensor& tensor, const Description& weight) {
  Value v;
  v.tensor = tensor;
  v.memory = alias_of(tensor);
  v.data = tensor.const_data_ptr();
  v.version = version_of(tensor);
  v.gpu = gpu_of(tensor);
  auto strides = tensor.strides();
  v.strides.assign(strides.begin(), strides.end());
  v.in_order = is_dense_in(weight.order, static_cast<int32_t>(v.strides.size()), weight.dims.data(), v.strides.data());
  if (v.in_order && v.gpu < 0) v.sample = sample_of(v.data, weight.bytes);
  return v;
}

bool same(const Prepared& prepared, const std::vector<Tensor>& given) {
  if (given.size() != prepared.values.size()) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    const Value& was = prepared.values[i];
    const Description& w = prepared.of->weights[i];
    const Tensor& now = given[i];
    if (shared_by_copies(now) != shared_by_copies(was.tensor) || now.const_data_ptr() != was.data || gpu_of(now) != was.gpu || now.numel() != w.elements ||
        now.element_size() * static_cast<size_t>(w.elements) != w.bytes)
      return false;
    if (was.version && version_of(now) != was.version) return false;
    auto strides = now.strides();
    if (!std::equal(strides.begin(), strides.end(), was.strides.begin(), was.strides.end())) return false;
    if (was.in_order && was.gpu < 0 && sample_of(was.data, w.bytes) != was.sample) return false;
  }
  return true;
}

ingot_options* make_options(const std::string& device) {
  ingot_options* options = nullptr;
  check(ingot_options_create(&options));
  check(ingot_options_set(options, "device", device.c_str()));
  return options;
}

std::shared_ptr<Prepared> prepare(std::shared_ptr<const Plan> plan, const std::vector<Tensor>& given, MakePool make) {
  auto made = std::make_shared<Prepared>();
  made->of = std::move(plan);
  // A plan for several devices runs where its weights are.
  const bool on_gpu = !given.empty() && gpu_of(given[0]) >= 0;
  const std::unique_ptr<ingot_options, void (*)(ingot_options*)> options(make_options(on_gpu ? device_text(gpu_of(given[0])) : "auto"), ingot_options_release);
  check(ingot_weights_create(made->of->handle, options.get(), &made->weights));
  for (size_t i = 0; i < given.size(); ++i) {
    const Description& w = made->of->weights[i];
    const Value& value = made->values.emplace_back(value_of(given[i], w));
    Tensor t = given[i];
    if (!value.in_order && value.gpu >= 0) {
      t = made->copied.emplace_back(empty_in(w.order, static_cast<int32_t>(w.dims.size()), w.dims.data(), w.dtype, value.gpu, "a copy of weight " + w.name));
      copy_into(t, given[i]);
    }
    if (w.bytes > 0) check(ingot_weights_set(made->weights, w.name.c_str(), t.const_data_ptr(), w.bytes, t.strides().data(), 0));
  }
  check(ingot_weights_commit(made->weights));
  made->pool = make(made->of->handle, made->weights);
  return made;
}

Plan::Plan(const Tensor& tensor) : size(static_cast<size_t>(tensor.numel())) {
  bytes.resize((size + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::memcpy(bytes.data(), tensor.const_data_ptr(), size);
  check(ingot_plan_load_memory_with(bytes.data(), size, INGOT_TRUST_CODE, &handle));  // the caller has let torch load the program, which is code
  size_t count = 0;
  check(ingot_plan_weight_count(handle, &count));
  for (size_t i = 0; i < count; ++i) {
    ingot_binding w;
    check(ingot_plan_weight(handle, i, &w));
    if (w.written) continue;
    Description& d = weights.emplace_back(Description{w.name, w.dtype, {w.dims, w.dims + w.rank}, {w.order, w.order != nullptr ? static_cast<size_t>(w.rank) : 0}});
    for (int64_t n : d.dims) d.elements *= n;
    d.bytes = size_of(d.dtype) * static_cast<size_t>(d.elements);
  }
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto *x = static_cast<const char*>(a), *y = static_cast<const char*>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// True if the memory of the new program's plan or weights overlaps that of the old plan, which is therefore gone.
bool replaced(const Program& old, const Program& now, const std::vector<Tensor>& weights) {
  if (overlap(old.address, old.plan->size, now.address, now.plan->size)) return true;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (overlap(old.address, old.plan->size, weights[i].const_data_ptr(), now.plan->weights[i].bytes)) return true;
  }
  return false;
}

std::shared_ptr<Program> find(const Tensor& plan, const std::vector<Tensor>& weights) {
  const void* address = plan.const_data_ptr();
  auto& all = programs();
  std::shared_ptr<Program> known;
  {
    std::shared_lock lock(programs_mutex);
    auto found = all.find(address);
    if (found != all.end()) known = found->second;
    if (known != nullptr && known->is(plan)) return known;
  }
  Source source(plan);
  // Another tensor of the same memory, or one that reuses its address.
  if (known != nullptr && known->holds(plan, true)) {
    std::unique_lock lock(programs_mutex);
    std::swap(known->source, source);  // the old one is destroyed after the lock: that may run code of its owner
    return known;
  }
  auto made = std::make_shared<Program>();
  made->address = address;
  made->plan = std::make_shared<const Plan>(plan);
  made->source = std::move(source);
  check_weights(*made->plan, weights);
  std::vector<std::shared_ptr<Program>> gone;  // destroyed after the lock
  std::vector<Source> sources;
  std::vector<std::shared_ptr<Prepared>> prepared;
  std::unique_lock lock(programs_mutex);
  if (auto found = all.find(address); found != all.end() && found->second->is(plan)) return found->second;
  for (auto old = all.begin(); old != all.end();) {
    sources.push_back(std::exchange(old->second->source, {}));
    prepared.push_back(old->second->exchange(nullptr));
    if (replaced(*old->second, *made, weights)) {
      gone.push_back(std::move(old->second));
      old = all.erase(old);
    } else {
      ++old;
    }
  }
  if (all.size() >= max_programs) {
    auto oldest = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second->last_call < b.second->last_call; });
    gone.push_back(std::move(oldest->second));
    all.erase(oldest);
  }
  all.emplace(address, made);
  lock.unlock();
  return made;
}

}  // namespace

bool holds_plan(const Tensor& plan) {
  return plan.is_cpu() && plan.is_bytes() && plan.is_contiguous() && plan.numel() >= static_cast<int64_t>(header_bytes) &&
         std::memcmp(plan.const_data_ptr(), ingot::plan_mark.data(), ingot::plan_mark.size()) == 0;
}

std::shared_ptr<void> saved_pool(const Tensor& plan, const std::vector<Tensor>& weights, MakePool make) {
  std::shared_ptr<Program> program = find(plan, weights);
  program->last_call.store(calls.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  std::shared_ptr<Prepared> replaced_by_now;  // destroyed after the lock
  std::shared_ptr<Prepared> prepared = program->current();
  if (prepared == nullptr || !same(*prepared, weights)) {
    check_weights(*program->plan, weights);
    if (prepared != nullptr) prepared = program->exchange(nullptr);  // running calls finish with what they have
    prepared.reset();                                                // freed before the new ones are made: both may not fit
    std::lock_guard lock(program->preparing);
    prepared = program->current();
    if (prepared == nullptr || !same(*prepared, weights)) {
      prepared = prepare(program->plan, weights, make);
      replaced_by_now = program->exchange(prepared);
    }
  }
  void* pool = prepared->pool.get();
  return {std::move(prepared), pool};
}

}  // namespace ingot_torch
