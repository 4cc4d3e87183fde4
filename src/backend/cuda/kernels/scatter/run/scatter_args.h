// What the kernels of scatters take on CUDA, and what they are called.
//
// Points are what is indexed: index tuples of "scatter", places along the axis of "scatter_along", where every line has its own. Each point's key is where
// in the result it goes. Points are sorted by key, those of one key stay in order, so that one thread can go through them: results never depend on timing.
// What is combined rather than set is cut into chunks of points, each with a thread an element; a key that goes on over several chunks is finished by
// a second kernel.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/scatter/run/scatter_args.h"

// `order` 0: points are in order already. `begun`, `ended`: what a key comes to at a chunk's beginning and at its end.
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

// Makes the keys: one kernel for all.
inline constexpr const char* scatter_keys_cuda_name = "scatter_keys";
// Kernels: set: the name itself; else name_chunks and name_rest.
std::string scatter_cuda_name(ScatterArgs::Kind, ir::DType);

}  // namespace ingot::kernels
