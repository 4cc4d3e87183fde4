// Torch's counter of writes to a tensor and to all that share its memory.
#pragma once
#include <cstdint>
#include <optional>

#include "torch/tensors.h"

namespace ingot_torch {

// nullopt for tensors of torch.inference_mode, whose writes are not counted. 0 if this torch has no counter; then writes go unnoticed.
std::optional<int64_t> version_of(const Tensor&);
// Counts a write, so that autograd (which may have saved the tensor) and engines (whose weight it may be) notice it.
void count_write(const Tensor&);

}  // namespace ingot_torch
