// Launches of kernels that sum windows of A (windows_args.h), for one set of sizes. `step`: "a depthwise_conv", for messages.
#pragma once
#include "backend/cuda/kernels/run/launches.h"
#include "backend/cuda/kernels/run/windows_args.h"

namespace ingot::kernels {

// Error (format) if an operand does not fit. B and the body's operands have the sizes `of_b` and `of_body`; what is not written may have 1 instead.
void check_window_operands(const WindowArgs&, const char* step, std::span<const int64_t> of_b, std::span<const int64_t> of_body, const Call&);

struct WindowThreads {
  int64_t in_vectors, single;                 // for the outputs of a line, with all channels or columns: in name_0, and in name_1
  std::vector<uint32_t> vector_axes;          // of each operand: a bit for each axis along which elements of a vector are neighbours
};
// Error (unsupported) if a grid is too large.
CudaLaunches window_launches(const WindowArgs&, const char* step, const WindowThreads&, const Call&);

}  // namespace ingot::kernels
