// The dispatcher ops ingot::execute, ingot::run and ingot::call, which run a function of a plan on torch tensors. They use LibTorch's stable ABI only, so that one
// binary serves every Python and every torch from 2.10 on.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/engines.h"
#include "torch/versions.h"

namespace {

using namespace ingot_torch;

// AOTInductor's executor cannot pass an empty list: a single empty uint8 tensor stands for it.
void drop_nothing(std::vector<Tensor>& list) {
  if (list.size() == 1 && list[0].numel() == 0 && list[0].is_bytes()) list.clear();
}

// On a GPU the session takes tensors in the plan's axis order only. Others are copied by torch in the current stream, and written copies are copied back.
class Given {
 public:
  explicit Given(int32_t gpu) : gpu_(gpu) {}
  ingot_tensor view(const Tensor& t, Order order, bool written) {
    const ingot_tensor own = ingot_torch::view(t, written, gpu_);
    if (gpu_ < 0 || is_dense_in(order, own.rank, own.dims, own.strides)) return own;
    Tensor copy = empty_in(order, own.rank, own.dims, own.dtype, gpu_, "a copy of a tensor");
    copy_into(copy, t);
    copies_.push_back({t, copy, written});
    return ingot_torch::view(copy, written, gpu_);
  }
  void put_back() {
    for (Copy& c : copies_) {
      if (c.written) copy_into(c.given, c.copy);
    }
  }

 private:
  struct Copy {
    Tensor given, copy;
    bool written;
  };
  int32_t gpu_;
  std::vector<Copy> copies_;
};

// `state`: the inputs that the function writes, then its states, in the order of the bindings.
void execute(std::vector<Tensor> inputs, std::vector<Tensor> state, std::vector<Tensor> outputs, std::vector<Tensor> weights, std::vector<int64_t> /*sizes*/, Tensor plan,
             int64_t function) {
  drop_nothing(weights);
  const std::shared_ptr<Entry> entry = find(plan, weights);
  Lease lease(*entry, function);
  const std::vector<bool>& written = lease.written_inputs();
  if (written.size() == lease.written()) drop_nothing(inputs);
  if (lease.written() + lease.states() == 0) drop_nothing(state);
  size_t given = inputs.size() + std::min(state.size(), lease.written());
  if (state.size() != lease.written() + lease.states()) {
    raise(INGOT_INVALID_INPUT,
          "ingot::execute: the function writes " + std::to_string(lease.written() + lease.states()) + " tensors, but " + std::to_string(state.size()) + " are given as state");
  }
  CallTensors all(given + outputs.size());
  ingot_tensor* tensors = all.data();
  Given tensor(entry->gpu);
  size_t n = 0, next_input = 0, next_state = 0;
  for (; n < given; ++n) {
    bool from_state = n < written.size() ? written[n] : next_input == inputs.size();
    if (from_state ? next_state == state.size() : next_input == inputs.size()) break;  // the call below reports what is missing
    tensors[n] = tensor.view(from_state ? state[next_state++] : inputs[next_input++], lease.order(n), from_state);
  }
  size_t count = n;
  for (const Tensor& t : outputs) tensors[n++] = tensor.view(t, {}, true);
  for (size_t i = 0; i < lease.states(); ++i) {
    ingot_tensor memory = tensor.view(state[lease.written() + i], {}, true);
    check(ingot_session_bind_state(lease.get(), i, &memory));
  }
  for (const Tensor& t : state) count_write(t);
  check(ingot_session_run_with(lease.get(), tensors, count, tensors + count, outputs.size()));
  tensor.put_back();
}

// Creates outputs whose sizes become known while the model runs.
struct Late {
  const Lease& lease;
  int32_t gpu;
  std::vector<std::optional<Tensor>>& outputs;

  static void* give(void* user, size_t output, const int64_t* dims, int32_t rank) {
    const auto& late = *static_cast<Late*>(user);
    try {
      Tensor& t = late.outputs[output].emplace(empty_in({}, rank, dims, late.lease.outputs()[output], late.gpu, "output " + std::to_string(output)));
      return t.mutable_data_ptr();
    } catch (const std::exception&) {  // the C caller reports that there is no memory
      return nullptr;
    }
  }
};

// The same, but it creates its outputs, row-major. `state` as in execute.
std::vector<Tensor> run_on(const std::shared_ptr<Entry>& entry, const std::vector<Tensor>& inputs, const std::vector<Tensor>& state, int64_t function) {
  Lease lease(*entry, function);
  if (lease.written() + lease.states() != state.size())
    raise(INGOT_INVALID_INPUT,
          "ingot::run: the function writes " + std::to_string(lease.written() + lease.states()) + " tensors, but " + std::to_string(state.size()) + " are given as state");
  const size_t count = inputs.size() + lease.written(), made = lease.outputs().size();
  CallTensors all(count + made);
  ingot_tensor* tensors = all.data();
  Given tensor(entry->gpu);
  size_t next_input = 0, next_state = 0;
  for (size_t i = 0; i < count; ++i) {
    const bool written = i < lease.written_inputs().size() && lease.written_inputs()[i];
    if (!written && next_input == inputs.size()) raise(INGOT_INVALID_INPUT, "ingot::run: an input is missing");
    tensors[i] = tensor.view(written ? state[next_state++] : inputs[next_input++], lease.order(i), written);
  }
  check(ingot_session_resolve(lease.get(), tensors, count));
  std::vector<std::optional<Tensor>> outputs(made);
  Late late{lease, entry->gpu, outputs};
  for (size_t o = 0; o < made; ++o) {
    ingot_tensor& t = tensors[count + o] = ingot_tensor{};
    t.dtype = lease.outputs()[o];
    check(ingot_session_output(lease.get(), o, &t.rank, &t.dims));
    if (lease.is_open(o)) {
      t = unknown_output(t.dtype, t.rank);
      continue;
    }
    outputs[o] = empty_in({}, t.rank, t.dims, t.dtype, entry->gpu, "output " + std::to_string(o));
    t = view(*outputs[o], true, entry->gpu);
  }
  for (size_t i = 0; i < lease.states(); ++i) {
    ingot_tensor memory = tensor.view(state[lease.written() + i], {}, true);
    check(ingot_session_bind_state(lease.get(), i, &memory));
  }
  for (const Tensor& t : state) count_write(t);
  if (lease.any_open()) check(ingot_session_set_output_memory(lease.get(), &Late::give, &late));
  check(ingot_session_run_with(lease.get(), tensors, count, tensors + count, made));
  tensor.put_back();
  std::vector<Tensor> out;
  out.reserve(made);
  for (std::optional<Tensor>& t : outputs) out.push_back(std::move(*t));
  return out;
}

// For eager calls of functions that write nothing else (few steps per call), and for outputs whose sizes are read from data.
std::vector<Tensor> run_with(std::vector<Tensor> inputs, std::vector<Tensor> state, Tensor plan, int64_t function) { return run_on(find(plan, {}), inputs, state, function); }
std::vector<Tensor> run(std::vector<Tensor> inputs, Tensor plan, int64_t function) { return run_on(find(plan, {}), inputs, {}, function); }

// For TorchScript, which does not see writes to tensors in a list: it writes none of its tensors. The new values of `state` follow the outputs. Its schema says
// that it writes the lists, because torch's stable ABI moves the tensors out of them. Otherwise TorchScript would pass one list to several calls.
std::vector<Tensor> call(std::vector<Tensor> inputs, std::vector<Tensor> state, std::vector<Tensor> weights, Tensor plan, int64_t function) {
  for (Tensor& t : state) t = clone(t);
  std::vector<Tensor> out = run_on(find(plan, weights), inputs, state, function);
  out.insert(out.end(), state.begin(), state.end());
  return out;
}

struct Registered {
  Operators schemas{"ingot"};
  Operators kernels{"ingot", "CompositeExplicitAutograd"};
  Registered() {
    schemas.schema("run(Tensor[] inputs, Tensor plan, int function) -> Tensor[]")
        .schema("call(Tensor[](a!) inputs, Tensor[](b!) state, Tensor[](c!) weights, Tensor plan, int function) -> Tensor[]")
        .schema("run_with(Tensor[] inputs, Tensor(a!)[] state, Tensor plan, int function) -> Tensor[]")
        .schema("execute(Tensor[] inputs, Tensor(a!)[] state, Tensor(b!)[] outputs, Tensor[] weights, SymInt[] sizes, Tensor plan, int function) -> ()");
    kernels.kernel<execute>("execute").kernel<run>("run").kernel<call>("call").kernel<run_with>("run_with");
  }
};
const Registered registered;

}  // namespace
