// The dispatcher op: ingot::execute runs a function of a plan on torch tensors. LibTorch's stable ABI only, so that
// one binary serves every Python and every torch from 2.10 on.
//
// In process, `plan` is a 32-byte tensor: magic and the id of a registered (plan, weights) pair, and `weights` is empty. In saved
// programs (saved.cpp) `plan` is a plan without the values of its weights, which `weights` are, in the plan's order. Sessions hold no
// user state; they are pooled per pair, so that threads never wait for one another.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/saved.h"

namespace {

using namespace ingot_torch;

constexpr uint64_t plan_magic = 0x6e616c70746f676eULL;  // "ngotplan"

int32_t torch_number_of(ingot_dtype type) {
  switch (type) {
    case INGOT_BOOL: return aoti_torch_dtype_bool();
    case INGOT_UINT8: return aoti_torch_dtype_uint8();
    case INGOT_INT8: return aoti_torch_dtype_int8();
    case INGOT_INT16: return aoti_torch_dtype_int16();
    case INGOT_INT32: return aoti_torch_dtype_int32();
    case INGOT_INT64: return aoti_torch_dtype_int64();
    case INGOT_FLOAT16: return aoti_torch_dtype_float16();
    case INGOT_BFLOAT16: return aoti_torch_dtype_bfloat16();
    case INGOT_FLOAT32: return aoti_torch_dtype_float32();
    default: return aoti_torch_dtype_float64();
  }
}

// Registered engine with its idle sessions.
struct Entry {
  ingot_plan* plan = nullptr;
  ingot_weights* weights = nullptr;
  const ingot_options* options = nullptr;  // of every session
  std::mutex mutex;
  // Per function: sessions nobody uses, which inputs are written, how many states there are, what it gives.
  struct Function {
    std::vector<ingot_session*> idle;
    std::vector<bool> written_inputs;
    size_t written = 0, states = 0;
    std::vector<int32_t> outputs;  // torch's number of each one's dtype
  };
  std::unordered_map<int64_t, Function> functions;

  ~Entry() {
    for (auto& [index, function] : functions) {
      for (ingot_session* session : function.idle) ingot_session_release(session);
    }
  }
};

std::shared_mutex registry_mutex;
std::unordered_map<uint64_t, std::shared_ptr<Entry>> registry;
uint64_t next_id = 1;

std::shared_ptr<Entry> find(const Tensor& plan, const std::vector<Tensor>& weights) {
  std::array<uint64_t, 2> head;
  if (!plan.is_cpu() || plan.numel() < static_cast<int64_t>(sizeof head)) raise(INGOT_INVALID_INPUT, "ingot::execute: `plan` is not a plan tensor");
  std::memcpy(head.data(), plan.const_data_ptr(), sizeof head);
  if (head[0] != plan_magic && holds_plan(plan)) {
    auto make = [](ingot_plan* p, ingot_weights* w) -> std::shared_ptr<void> {
      auto entry = std::make_shared<Entry>();
      entry->plan = p;
      entry->weights = w;
      return entry;
    };
    return std::static_pointer_cast<Entry>(saved_pool(plan, weights, make));
  }
  if (head[0] != plan_magic) raise(INGOT_FORMAT, "ingot::execute: `plan` is not a plan tensor: it does not start as one", "save the program again with ingot.save");
  std::shared_lock lock(registry_mutex);
  auto found = registry.find(head[1]);
  if (found == registry.end())
    raise(INGOT_INVALID_INPUT, "ingot::execute: the engine of this plan tensor is not loaded in this process",
          "keep the ingot.Module alive, or load the saved file with ingot.load");
  return found->second;
}

// A session taken from the pool for one call.
class Lease {
 public:
  Lease(std::shared_ptr<Entry> entry, int64_t function) : entry_(std::move(entry)) {
    {
      std::lock_guard lock(entry_->mutex);
      auto [at, fresh] = entry_->functions.try_emplace(function);
      function_ = &at->second;
      if (fresh) describe(static_cast<uint32_t>(function));
      if (!function_->idle.empty()) {
        session_ = function_->idle.back();
        function_->idle.pop_back();
        return;
      }
    }
    check(ingot_session_create(entry_->plan, entry_->weights, static_cast<uint32_t>(function), entry_->options, &session_));
  }
  ~Lease() {
    if (session_ == nullptr) return;
    std::lock_guard lock(entry_->mutex);
    function_->idle.push_back(session_);
  }
  const std::vector<bool>& written_inputs() const { return function_->written_inputs; }
  size_t written() const { return function_->written; }
  size_t states() const { return function_->states; }
  const std::vector<int32_t>& outputs() const { return function_->outputs; }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ingot_session* operator->() const = delete;
  ingot_session* get() const { return session_; }

 private:
  void describe(uint32_t function) {
    size_t inputs = 0, outputs = 0;
    check(ingot_plan_count(entry_->plan, function, &inputs, &outputs));
    for (size_t i = 0; i < inputs; ++i) {
      ingot_binding b;
      check(ingot_plan_input(entry_->plan, function, i, &b));
      function_->written_inputs.push_back(b.written != 0);
      function_->written += b.written != 0;
    }
    for (size_t o = 0; o < outputs; ++o) {
      ingot_binding b;
      check(ingot_plan_output(entry_->plan, function, o, &b));
      function_->outputs.push_back(torch_number_of(b.dtype));
    }
    check(ingot_plan_state_count(entry_->plan, function, &function_->states));
  }

  std::shared_ptr<Entry> entry_;
  Entry::Function* function_ = nullptr;  // in a map, whose elements stay where they are
  ingot_session* session_ = nullptr;
};

// AOTInductor's executor cannot pass an empty list: one uint8 tensor without elements stands for it.
void drop_nothing(std::vector<Tensor>& list) {
  if (list.size() == 1 && list[0].numel() == 0 && list[0].scalar_type() == ScalarType::Byte) list.clear();
}

// `state`: the inputs that the function writes, then its states, in the order of its bindings.
void execute(std::vector<Tensor> inputs, std::vector<Tensor> state, std::vector<Tensor> outputs, std::vector<Tensor> weights, std::vector<int64_t> /*sizes*/, Tensor plan,
             int64_t function) {
  drop_nothing(weights);
  Lease lease(find(plan, weights), function);
  const std::vector<bool>& written = lease.written_inputs();
  if (written.size() == lease.written()) drop_nothing(inputs);
  if (lease.written() + lease.states() == 0) drop_nothing(state);
  size_t given = inputs.size() + std::min(state.size(), lease.written());
  if (state.size() != lease.written() + lease.states()) {
    raise(INGOT_INVALID_INPUT,
          "ingot::execute: the function writes " + std::to_string(lease.written() + lease.states()) + " tensors, but " + std::to_string(state.size()) + " are given as state");
  }
  // Few tensors, so no heap for the usual call.
  constexpr size_t few = 16;
  std::array<ingot_tensor, few> small;
  std::vector<ingot_tensor> large;
  ingot_tensor* tensors = small.data();
  if (given + outputs.size() > few) {
    large.resize(given + outputs.size());
    tensors = large.data();
  }
  size_t n = 0, next_input = 0, next_state = 0;
  for (; n < given; ++n) {
    bool from_state = n < written.size() ? written[n] : next_input == inputs.size();
    if (from_state ? next_state == state.size() : next_input == inputs.size()) break;  // the call below says what is missing
    tensors[n] = from_state ? view(state[next_state++], true) : view(inputs[next_input++], false);
  }
  size_t count = n;
  for (const Tensor& t : outputs) tensors[n++] = view(t, true);
  for (size_t i = 0; i < lease.states(); ++i) {
    ingot_tensor memory = view(state[lease.written() + i], true);
    check(ingot_session_bind_state(lease.get(), i, &memory));
  }
  check(ingot_session_run_with(lease.get(), tensors, count, tensors + count, outputs.size()));
}

// The same for eager calls of functions that write nothing but their outputs: it makes these itself, row-major, so that a call is few steps.
std::vector<Tensor> run(std::vector<Tensor> inputs, Tensor plan, int64_t function) {
  Lease lease(find(plan, {}), function);
  if (lease.written() + lease.states() > 0) raise(INGOT_INVALID_INPUT, "ingot::run: the function writes state; ingot::execute runs it");
  constexpr size_t few = 16;
  std::array<ingot_tensor, few> small;
  std::vector<ingot_tensor> large;
  ingot_tensor* tensors = small.data();
  size_t count = inputs.size(), made = lease.outputs().size();
  if (count + made > few) {
    large.resize(count + made);
    tensors = large.data();
  }
  for (size_t i = 0; i < count; ++i) tensors[i] = view(inputs[i], false);
  check(ingot_session_resolve(lease.get(), tensors, count));
  std::vector<Tensor> outputs;
  outputs.reserve(made);
  for (size_t o = 0; o < made; ++o) {
    int32_t rank = 0;
    const int64_t* dims = nullptr;
    check(ingot_session_output(lease.get(), o, &rank, &dims));
    std::array<int64_t, 64> strides;
    int64_t row = 1;
    for (int32_t d = rank; d-- > 0;) {
      strides[static_cast<size_t>(d)] = row;
      row *= dims[d] > 1 ? dims[d] : 1;
    }
    AtenTensorHandle handle = nullptr;
    if (aoti_torch_empty_strided(rank, dims, strides.data(), lease.outputs()[o], aoti_torch_device_type_cpu(), 0, &handle) != AOTI_TORCH_SUCCESS) {
      raise(INGOT_OUT_OF_MEMORY, "ingot::run: no memory for output " + std::to_string(o));
    }
    outputs.emplace_back(handle);
    tensors[count + o] = view(outputs.back(), true);
  }
  check(ingot_session_run_with(lease.get(), tensors, count, tensors + count, made));
  return outputs;
}

STABLE_TORCH_LIBRARY(ingot, m) {
  m.def("run(Tensor[] inputs, Tensor plan, int function) -> Tensor[]");
  m.def(
      "execute(Tensor[] inputs, Tensor(a!)[] state, Tensor(b!)[] outputs, Tensor[] weights, SymInt[] sizes, "
      "Tensor plan, int function) -> ()");
}
STABLE_TORCH_LIBRARY_IMPL(ingot, CompositeExplicitAutograd, m) {
  m.impl("execute", TORCH_BOX(&execute));
  m.impl("run", TORCH_BOX(&run));
}

}  // namespace

// For python/ingot: makes a (plan, weights) pair and its session options known to the op. The caller keeps them alive until it unregisters them.
extern "C" __attribute__((visibility("default"))) uint64_t ingot_torch_register(ingot_plan* plan, ingot_weights* weights, const ingot_options* options) {
  auto entry = std::make_shared<Entry>();
  entry->plan = plan;
  entry->weights = weights;
  entry->options = options;
  std::unique_lock lock(registry_mutex);
  uint64_t id = next_id++;
  registry.emplace(id, std::move(entry));
  return id;
}

extern "C" __attribute__((visibility("default"))) void ingot_torch_unregister(uint64_t id) {
  std::shared_ptr<Entry> gone;  // released outside the lock, and not before running calls are over
  std::unique_lock lock(registry_mutex);
  auto found = registry.find(id);
  if (found == registry.end()) return;
  gone = std::move(found->second);
  registry.erase(found);
  lock.unlock();
}
