#include "torch/gpu.h"

#include <dlfcn.h>

#include <array>
#include <mutex>
#include <unordered_map>

#include "torch/tensors.h"

namespace ingot_torch {

namespace {

// The part of torch's C interface that a torch without CUDA lacks. It is looked up, so that one library serves both.
using CurrentStream = TorchStatus (*)(int32_t gpu, void** stream);

CurrentStream find_current_stream() {
  void* torch = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);  // RTLD_DEFAULT does not find it
  return torch == nullptr ? nullptr : reinterpret_cast<CurrentStream>(dlsym(torch, "aoti_torch_get_current_cuda_stream"));
}

// Device memory is allocated as a tensor of bytes, so that torch counts it and reuses it in stream order.
struct Taken {
  std::mutex mutex;
  std::unordered_map<void*, TensorHandle> tensors;
};
Taken& taken() {
  static auto* all = new Taken;  // never destroyed: late calls are possible
  return *all;
}

void* take(void* user, size_t bytes) {
  const int64_t size = static_cast<int64_t>(bytes), stride = 1;
  TensorHandle tensor = nullptr;
  void* data = nullptr;
  auto gpu = static_cast<int32_t>(reinterpret_cast<intptr_t>(user));
  if (aoti_torch_empty_strided(1, &size, &stride, aoti_torch_dtype_uint8(), aoti_torch_device_type_cuda(), gpu, &tensor) != 0) return nullptr;
  if (aoti_torch_get_data_ptr(tensor, &data) != 0 || data == nullptr) {
    aoti_torch_delete_tensor_object(tensor);
    return nullptr;
  }
  std::lock_guard lock(taken().mutex);
  taken().tensors.emplace(data, tensor);
  return data;
}

void give(void*, void* memory, size_t) {
  TensorHandle tensor = nullptr;
  {
    std::lock_guard lock(taken().mutex);
    auto found = taken().tensors.find(memory);
    tensor = found->second;
    taken().tensors.erase(found);
  }
  aoti_torch_delete_tensor_object(tensor);
}

constexpr size_t max_gpus = 64;

}  // namespace

void* current_stream(int32_t gpu) {
  static const CurrentStream ask = find_current_stream();
  void* stream = nullptr;
  if (ask == nullptr || ask(gpu, &stream) != 0)
    raise(INGOT_DEVICE, "torch does not say which CUDA stream is the current one", "use a torch that was built for CUDA: https://pytorch.org/get-started");
  return stream;
}

const ingot_allocator& gpu_memory(int32_t gpu) {
  static const auto all = [] {
    std::array<ingot_allocator, max_gpus> made{};
    for (size_t i = 0; i < max_gpus; ++i) made[i] = {take, give, reinterpret_cast<void*>(i)};
    return made;
  }();
  if (gpu < 0 || gpu >= static_cast<int32_t>(max_gpus)) raise(INGOT_DEVICE, "GPU number " + std::to_string(gpu) + " is more than torch numbers");
  return all[static_cast<size_t>(gpu)];
}

}  // namespace ingot_torch
