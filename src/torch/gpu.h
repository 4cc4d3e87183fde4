// Torch's current stream and memory of a GPU.
#pragma once
#include <cstdint>

#include "ingot/ingot.h"

namespace ingot_torch {

// The current stream of this thread on the GPU. Raises if this torch has no CUDA.
void* current_stream(int32_t gpu);
// Torch's allocator, in the order of the current stream; while the stream is captured (torch.cuda.graph), it uses the capture's own pool.
const ingot_allocator& gpu_memory(int32_t gpu);

}  // namespace ingot_torch
