// A library with the name of torch's and functions that do nothing. libingot_torch.so is linked with it, so that it asks for libtorch_cpu.so;
// when it is loaded, that is the one of `import torch`.
#include "torch/stable.h"

namespace ingot_torch {
extern "C" {
#define INGOT_TORCH_FUNCTION(result, name, parameters) \
  __attribute__((visibility("default"))) result name parameters { return result(); }
#include "torch/stable_functions.def"
}
}  // namespace ingot_torch
