#include "torch/versions.h"

#include <dlfcn.h>

namespace ingot_torch {

// at::TensorBase::_version and torch::autograd::impl::bump_version are not in the stable ABI, so they are looked up.
std::optional<int64_t> version_of(const Tensor& tensor) {
  using Version = int64_t (*)(const void* tensor);
  static const auto version = reinterpret_cast<Version>(dlsym(RTLD_DEFAULT, "_ZNK2at10TensorBase8_versionEv"));
  try {
    return version != nullptr ? version(tensor.get()) : 0;
  } catch (...) {  // of torch's C++ library, which may not be ours
    return {};
  }
}

void count_write(const Tensor& tensor) {
  using Bump = void (*)(const void* tensor);
  static const auto bump = reinterpret_cast<Bump>(dlsym(RTLD_DEFAULT, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"));
  try {
    if (bump != nullptr) bump(tensor.get());
  } catch (...) {  // a tensor of torch.inference_mode
  }
}

}  // namespace ingot_torch
