// A step on the GPU that is here, with tensors of the host: for tests that do the same on the host.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/fused_cases_test.h"

namespace ingot::backend::cuda {

// `text`: of kernels behind prelude() and the texts of matrix instructions. `shift`: bytes by which every tensor begins behind an aligned address.
// Tensors are those of the step in order; all are copied back.
void run_on_gpu(const EmittedStep& step, const std::string& text, const std::vector<std::string>& kernels, const std::vector<HostTensor*>& tensors, std::span<const int64_t> sizes,
                size_t shift);

}  // namespace ingot::backend::cuda
