// Converts torch's tensors and errors to the C API's.
#pragma once
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "ingot/ingot.h"
#include "torch/stable.h"

namespace ingot_torch {

// The status is part of the text: python/ingot turns it back into the error's class.
[[noreturn]] inline void raise(ingot_status status, const std::string& message, const std::string& remedy = "") {
  throw std::runtime_error("[ingot:" + std::to_string(static_cast<int>(status)) + "] " + message + (remedy.empty() ? "" : "\n  remedy: " + remedy));
}

inline void check(ingot_status status) {
  if (status == INGOT_OK) return;
  const ingot_error* error = ingot_last_error();
  std::string text = error->message;
  if (*error->origin != '\0') text += std::string("\n  at ") + error->origin;
  raise(status, text, error->remedy);
}

inline int32_t torch_number_of(ingot_dtype type) {
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

inline ingot_dtype dtype_of(int32_t torch_number) {
  static const auto known = [] {
    std::array<std::optional<ingot_dtype>, 64> by_number;
    for (ingot_dtype type : {INGOT_BOOL, INGOT_UINT8, INGOT_INT8, INGOT_INT16, INGOT_INT32, INGOT_INT64, INGOT_FLOAT16, INGOT_BFLOAT16, INGOT_FLOAT32, INGOT_FLOAT64}) {
      by_number.at(static_cast<size_t>(torch_number_of(type))) = type;
    }
    return by_number;
  }();
  const auto i = static_cast<size_t>(torch_number);
  if (i >= known.size() || !known[i]) raise(INGOT_INVALID_INPUT, "ingot::execute: a tensor has a dtype that ingot does not support");
  return *known[i];
}

// "the CPU", "cuda:0"
inline std::string device_text(int32_t gpu) { return gpu < 0 ? "the CPU" : "cuda:" + std::to_string(gpu); }

// A view without a copy: dims and strides are the tensor's own, which must outlive the call. Raises if the tensor is not
// on the engine's device (`gpu`; -1: the CPU).
inline ingot_tensor view(const Tensor& tensor, bool written, int32_t gpu) {
  if (gpu < 0 ? !tensor.is_cpu() : !tensor.is_cuda() || tensor.get_device_index() != gpu) {
    raise(INGOT_INVALID_INPUT, "ingot::execute: a tensor is not on " + device_text(gpu) + ", where the engine runs",
          gpu < 0 ? "move the inputs with .cpu()" : "move the inputs with .to(\"" + device_text(gpu) + "\")");
  }
  ingot_tensor out{};
  out.data = written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
  out.dtype = dtype_of(tensor.torch_number());
  auto sizes = tensor.sizes();
  auto strides = tensor.strides();
  out.rank = static_cast<int32_t>(sizes.size());
  out.dims = sizes.data();
  out.strides = strides.data();
  return out;
}

// Axes of a tensor, outermost in memory first; empty = row-major.
using Order = std::span<const uint8_t>;

// True if the tensor is dense with its axes in this order. Also true for another rank, which the session refuses.
inline bool is_dense_in(Order order, int32_t rank, const int64_t* dims, const int64_t* strides) {
  if (!order.empty() && order.size() != static_cast<size_t>(rank)) return true;
  int64_t expected = 1;
  bool dense = true, empty = false;
  for (int32_t k = rank; k-- > 0;) {
    const int32_t d = order.empty() ? k : order[static_cast<size_t>(k)];
    empty |= dims[d] == 0;
    dense &= dims[d] == 1 || strides[d] == expected;
    expected *= dims[d];
  }
  return dense || empty;
}

// A new tensor with its axes in this order.
inline Tensor empty_in(Order order, int32_t rank, const int64_t* dims, ingot_dtype type, int32_t gpu, const std::string& what) {
  std::array<int64_t, 64> strides;
  int64_t next = 1;
  for (int32_t k = rank; k-- > 0;) {
    const int32_t d = order.empty() ? k : order[static_cast<size_t>(k)];
    strides[static_cast<size_t>(d)] = next;
    next *= dims[d] > 1 ? dims[d] : 1;
  }
  const int32_t device = gpu < 0 ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda();
  TensorHandle handle = nullptr;
  if (aoti_torch_empty_strided(rank, dims, strides.data(), torch_number_of(type), device, std::max(gpu, 0), &handle) != 0) {
    raise(INGOT_OUT_OF_MEMORY, "no memory for " + what);
  }
  Tensor made(handle);
  void* data = nullptr;
  int64_t bytes = 0;
  if (gpu < 0 && aoti_torch_get_data_ptr(handle, &data) == 0 && aoti_torch_get_storage_size(handle, &bytes) == 0) {
    ingot::ask_for_huge_pages(data, static_cast<size_t>(bytes));
  }
  return made;
}

// An output without memory whose sizes are not known yet.
inline ingot_tensor unknown_output(ingot_dtype type, int32_t rank) {
  static constexpr std::array<int64_t, 64> zeros{};
  return {nullptr, type, rank, zeros.data(), nullptr};
}

// The tensors of one call; a few need no heap.
class CallTensors {
 public:
  explicit CallTensors(size_t count) {
    if (count > small_.size()) large_.resize(count);
  }
  ingot_tensor* data() { return large_.empty() ? small_.data() : large_.data(); }

 private:
  std::array<ingot_tensor, 16> small_;
  std::vector<ingot_tensor> large_;
};

}  // namespace ingot_torch
