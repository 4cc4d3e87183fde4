// What torch says and gives of a GPU: its current stream, its memory.
#pragma once
#include <cstdint>

#include "ingot/ingot.h"

namespace ingot_torch {

// Of this thread, on that GPU. Raises where this torch has no CUDA.
void* current_stream(int32_t gpu);
// Torch's allocator, in the order of the current stream: while that is recorded (torch.cuda.graph), memory of the recording's own.
const ingot_allocator& gpu_memory(int32_t gpu);

}  // namespace ingot_torch
