// A sort on CUDA for one set of sizes.
#pragma once
#include "backend/cuda/kernels/run/launches.h"

namespace ingot::kernels {

CudaLaunches sort_cuda_launches(const Call&, const CudaMachine&);

// Adds the launches that sort 64-bit keys in scratch: `lines` lines of `length`, contiguous. Returns where the sorted
// keys and their positions (u32) are, in scratch.
struct SortedKeys {
  size_t keys = 0, order = 0;
  int64_t room = 0;  // those of line n start at n * room
};
SortedKeys sort_keys_cuda(CudaLaunches&, size_t keys, int64_t lines, int64_t length);

}  // namespace ingot::kernels
