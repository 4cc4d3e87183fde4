// How often torch has counted a write to a tensor, and to all that share its memory.
#pragma once
#include <cstdint>
#include <optional>

#include "torch/tensors.h"

namespace ingot_torch {

// Nothing for tensors of torch.inference_mode, whose writes nobody counts. 0 where this torch does not say: then writes go unnoticed.
std::optional<int64_t> version_of(const Tensor&);
// The tensor is written: autograd, which may have saved it, and engines whose weight it is have to notice.
void count_write(const Tensor&);

}  // namespace ingot_torch
