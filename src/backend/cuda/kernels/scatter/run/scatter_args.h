// Parameters and names of the CUDA kernels of a scatter.
//
// A point is an index tuple of "scatter", or a place along the axis of "scatter_along" (for each line separately). Its key is its destination in the result.
// Points are sorted by key, stably, so that one thread can process the points of a key in order: results never depend on timing. Updates that are combined
// rather than set are split into chunks of points, one thread per chunk and element. A second kernel finishes keys that span several chunks.
//
// What gives the same in any order is combined at once instead, by atomic operations: integers, and minima and maxima of floats. A sum of floats becomes one of
// integers: the largest exponent among a destination's updates gives a unit, and the multiples of it are added. Where destinations form many short lines (scatter_add along a row), a block does all this for some
// lines in shared memory.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/scatter/run/tuning.h"
#include "ir/dtype.h"
#include "kernels/scatter/run/scatter_args.h"

// `order` 0: points are already in order. `begun`, `ended`: partial results of the keys at a chunk's start and end.
#define INGOT_CUDA_SCATTER \
  struct ScatterCudaParameters { \
    unsigned long status, updates, out, keys, order, begun, ended; \
    unsigned long index[8]; \
    long extent[8], step[8]; /* of the result on the axis that index k chooses on */ \
    long lines, points, elements, chunk, chunks, room; /* keys of line n begin at n * room */ \
    CudaAxes<3> line_axes; /* index 0, updates, out */ \
    CudaAxes<9> point_axes; /* updates, indices */ \
    CudaAxes<2> element_axes; /* updates, out */ \
    int indices, wrap; \
  };

// A destination's number is its place among all results, by default, or its offset in the result.
#define INGOT_CUDA_SCATTER_AT_ONCE \
  struct ScatterAtOnceParameters { \
    unsigned long status, updates, out, exponents, sums; \
    unsigned long index[8]; \
    long extent[8], step[8]; /* of destinations on the axis that index k chooses on */ \
    long count, places; /* of updates; of destinations */ \
    CudaAxes<10> axes; /* of the updates, as they lie: updates, destination, indices */ \
    CudaAxes<1> place_axes; /* of destinations: where they are */ \
    int wrap, narrow; /* narrow: counts and offsets are below 2^31 */ \
    int unit_bits; /* the largest update of a destination is below 2^unit_bits units */ \
    long block_places, block_updates; /* of a block that has lines */ \
  };

namespace ingot::kernels {

INGOT_CUDA_SCATTER
INGOT_CUDA_SCATTER_AT_ONCE

// How updates of a kind and type are combined.
enum class ScatterWay : uint8_t {
  sorted,  // keys first
  at_once,  // in any order
  in_units,  // sums of floats: at once, as integers; or sorted, if the destinations are many more than the updates
};
ScatterWay scatter_way(ScatterArgs::Kind, ir::DType);

// Computes the keys, for all kinds.
inline constexpr const char* scatter_keys_cuda_name = "scatter_keys";
// Sets exponents and sums to 0.
inline constexpr const char* scatter_clear_cuda_name = "scatter_clear";
// Sorted: the name itself for set, else name_chunks and name_rest. Set, of few points, which are not sorted: name_few.
std::string scatter_cuda_name(ScatterArgs::Kind, ir::DType);
// At once, for this many indices: the name itself for many destinations, name_shared. In units: name_exponents, name_units, both also as _shared; name_finish.
std::string scatter_at_once_cuda_name(ScatterArgs::Kind, ir::DType, size_t indices);
// True if there are kernels for lines of destinations: that name_lines.
bool has_scatter_lines(ScatterArgs::Kind, ir::DType);

}  // namespace ingot::kernels
