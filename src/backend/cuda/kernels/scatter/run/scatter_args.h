// Parameters and names of the CUDA kernels of a scatter.
//
// A point is an index tuple of "scatter", or a place along the axis of "scatter_along" (for each line separately). Its key is its destination in the result.
// Points are sorted by key, stably, so that one thread can process the points of a key in order: results never depend on timing. Updates that are combined
// rather than set are split into chunks of points, one thread per chunk and element. A second kernel finishes keys that span several chunks.
// Integers are combined by atomic operations instead, without keys.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/scatter/run/scatter_args.h"

// `order` 0: points are already in order. `begun`, `ended`: partial results of the keys at a chunk's start and end.
#define INGOT_CUDA_SCATTER \
  struct ScatterCudaParameters { \
    unsigned long status, updates, out, keys, order, begun, ended; \
    unsigned long index[8]; \
    long extent[8], step[8]; /* of the result on the axis that index k chooses on */ \
    long lines, points, elements, chunk, chunks, room; /* keys of line n begin at n * room */ \
    CudaAxes<3> line_axes;    /* index 0, updates, out */ \
    CudaAxes<9> point_axes;   /* updates, indices */ \
    CudaAxes<2> element_axes; /* updates, out */ \
    int indices, wrap; \
  };

namespace ingot::kernels {

INGOT_CUDA_SCATTER

inline constexpr size_t most_scattered = 8;
inline constexpr int scatter_threads = 256;

// Computes the keys, for all kinds.
inline constexpr const char* scatter_keys_cuda_name = "scatter_keys";
// Whether updates of this kind are the same in any order: sums, minima and maxima of integers of 4 and 8 bytes.
bool scatters_at_once(ScatterArgs::Kind, ir::DType);
// Kernels for set and at once: the name itself; for others: name_chunks and name_rest.
std::string scatter_cuda_name(ScatterArgs::Kind, ir::DType);

}  // namespace ingot::kernels
