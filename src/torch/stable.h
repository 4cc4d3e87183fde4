// LibTorch's stable ABI as C++: tensors, and functions of ours as operators. It declares torch's C functions itself, so that a build needs no torch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ingot_torch {

using TorchStatus = int32_t;  // 0: it worked
using TensorHandle = struct TorchTensor*;
using LibraryHandle = struct TorchLibrary*;
using ListHandle = struct TorchList*;
using StackValue = uint64_t;
using BoxedFunction = void (*)(StackValue* stack, uint64_t arguments, uint64_t results);

extern "C" {
#define INGOT_TORCH_FUNCTION(result, name, parameters) result name parameters;
#include "torch/stable_functions.def"
#undef INGOT_TORCH_FUNCTION
}

inline constexpr uint64_t torch_abi_version = 0x020a000000000000;  // 2.10: the oldest torch that has these functions

inline void check_torch(TorchStatus status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string("torch failed to ") + what);
}

// A tensor of torch's. Copies share it.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorHandle owned) : handle_(owned, [](TensorHandle t) { aoti_torch_delete_tensor_object(t); }) {}
  TensorHandle get() const { return handle_.get(); }

  void* mutable_data_ptr() const { return read<void*>(torch_get_mutable_data_ptr, "give a tensor's memory"); }
  const void* const_data_ptr() const { return read<const void*>(torch_get_const_data_ptr, "give a tensor's memory"); }
  int64_t numel() const { return read<int64_t>(aoti_torch_get_numel, "count a tensor's elements"); }
  int32_t torch_number() const { return read<int32_t>(aoti_torch_get_dtype, "give a tensor's dtype"); }
  size_t element_size() const { return static_cast<size_t>(aoti_torch_dtype_element_size(torch_number())); }
  bool is_bytes() const { return torch_number() == aoti_torch_dtype_uint8(); }
  bool is_cpu() const { return device_type() == aoti_torch_device_type_cpu(); }
  bool is_cuda() const { return device_type() == aoti_torch_device_type_cuda(); }
  int32_t get_device_index() const { return read<int32_t>(aoti_torch_get_device_index, "give a tensor's device"); }
  int64_t storage_offset() const { return read<int64_t>(aoti_torch_get_storage_offset, "give a tensor's place in its storage"); }
  bool is_contiguous() const { return read<bool>(aoti_torch_is_contiguous, "say how a tensor is laid out"); }
  // They belong to the tensor.
  std::span<const int64_t> sizes() const { return {read<int64_t*>(aoti_torch_get_sizes, "give a tensor's sizes"), rank()}; }
  std::span<const int64_t> strides() const { return {read<int64_t*>(aoti_torch_get_strides, "give a tensor's strides"), rank()}; }

 private:
  template <typename T>
  T read(TorchStatus (*ask)(TensorHandle, T*), const char* what) const {
    T value{};
    check_torch(ask(get(), &value), what);
    return value;
  }
  int32_t device_type() const { return read<int32_t>(aoti_torch_get_device_type, "give a tensor's device"); }
  size_t rank() const { return static_cast<size_t>(read<int64_t>(aoti_torch_get_dim, "give a tensor's rank")); }

  std::shared_ptr<struct TorchTensor> handle_;
};

// Values of the dispatcher's stack. Reading one takes what it owns.
template <typename T>
struct OnStack;

template <>
struct OnStack<int64_t> {
  static int64_t take(StackValue value) { return static_cast<int64_t>(value); }
};

template <>
struct OnStack<Tensor> {
  static Tensor take(StackValue value) { return Tensor(reinterpret_cast<TensorHandle>(value)); }
  static StackValue put(const Tensor& tensor) {
    TensorHandle made = nullptr;
    check_torch(aoti_torch_new_tensor_handle(tensor.get(), &made), "share a tensor");
    return reinterpret_cast<StackValue>(made);
  }
};

template <typename T>
struct OnStack<std::vector<T>> {
  using Owned = std::unique_ptr<struct TorchList, TorchStatus (*)(ListHandle)>;
  static std::vector<T> take(StackValue value) {
    const Owned list(reinterpret_cast<ListHandle>(value), torch_delete_list);
    size_t size = 0;
    check_torch(torch_list_size(list.get(), &size), "count a list");
    std::vector<T> out;
    out.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      StackValue element = 0;
      check_torch(torch_list_get_item(list.get(), i, &element), "read a list");
      out.push_back(OnStack<T>::take(element));
    }
    return out;
  }
  static StackValue put(const std::vector<T>& values) {
    ListHandle made = nullptr;
    check_torch(torch_new_list_reserve_size(values.size(), &made), "make a list");
    Owned list(made, torch_delete_list);
    for (const T& value : values) check_torch(torch_list_push_back(list.get(), OnStack<T>::put(value)), "fill a list");
    return reinterpret_cast<StackValue>(list.release());
  }
};

template <typename Result, typename... Arguments>
void call_boxed(Result (*function)(Arguments...), StackValue* stack, uint64_t arguments, uint64_t results) {
  constexpr uint64_t made = std::is_void_v<Result> ? 0 : 1;
  if (arguments != sizeof...(Arguments) || results != made) throw std::runtime_error("torch calls an operator of ingot's with another number of arguments or results than it has");
  [&]<size_t... i>(std::index_sequence<i...>) {
    std::tuple<Arguments...> given{OnStack<Arguments>::take(stack[i])...};  // in this order
    if constexpr (std::is_void_v<Result>) {
      std::apply(function, std::move(given));
    } else {
      stack[0] = OnStack<Result>::put(std::apply(function, std::move(given)));
    }
  }(std::index_sequence_for<Arguments...>{});
}

// Errors of ours become torch's own: exceptions of one C++ library are unknown to another, and a wheel may have one that is not torch's.
template <auto function>
void boxed(StackValue* stack, uint64_t arguments, uint64_t results) {
  std::string problem;
  try {
    call_boxed(function, stack, arguments, results);
    return;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  aoti_torch_check(false, "ingot", __FILE_NAME__, __LINE__, problem.c_str());  // throws
}

// What a library of operators registers with torch's dispatcher, until it is destroyed.
class Operators {
 public:
  // Schemas, or kernels for a dispatch key.
  explicit Operators(const char* space) { check_torch(aoti_torch_library_init_def(space, "ingot", 0, &library_), "register operators"); }
  Operators(const char* space, const char* key) { check_torch(aoti_torch_library_init_impl(space, key, "ingot", 0, &library_), "register kernels"); }
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;
  ~Operators() { aoti_torch_delete_library_object(library_); }

  Operators& schema(const char* text) {
    check_torch(aoti_torch_library_def(library_, text), "register an operator");
    return *this;
  }
  template <auto function>
  Operators& kernel(const char* name) {
    check_torch(torch_library_impl(library_, name, boxed<function>, torch_abi_version), "register a kernel");
    return *this;
  }

 private:
  LibraryHandle library_ = nullptr;
};

inline void copy_into(const Tensor& to, const Tensor& from) {
  StackValue stack[] = {OnStack<Tensor>::put(to), OnStack<Tensor>::put(from), 0};
  check_torch(torch_call_dispatcher("aten::copy_", "", stack, torch_abi_version), "copy a tensor");
  OnStack<Tensor>::take(stack[0]);
}

inline Tensor clone(const Tensor& tensor) {
  StackValue stack[] = {OnStack<Tensor>::put(tensor), 0};
  check_torch(torch_call_dispatcher("aten::clone", "", stack, torch_abi_version), "clone a tensor");
  return OnStack<Tensor>::take(stack[0]);
}

}  // namespace ingot_torch
