// Parameters and names of the CUDA kernels of a sort.
//
// Numbers become keys (unsigned integers in the same order) and are sorted together with their positions: first tiles, one per block, then pairs of runs are
// merged until one is left. Only the first `k` of each run are kept, so that topk merges little.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "backend/cuda/kernels/sort/run/tuning.h"
#include "ir/dtype.h"

// Keys and positions of line n start at n * `room`; a run has `capacity` elements, the last one `last`.
#define INGOT_CUDA_SORT \
  struct SortCudaParameters { \
    unsigned long in, values, indices; \
    unsigned long keys, order, keys_to, order_to; /* a merge: from, to */ \
    long lines, length, k, in_step, values_step, indices_step; \
    long room, tiles; \
    long runs, capacity, last, capacity_to, blocks; /* a merge; blocks a pair */ \
    CudaAxes<3> axes; /* of the lines: in, values, indices */ \
    int descending; \
  };

namespace ingot::kernels {

INGOT_CUDA_SORT

// Kernels: name_line_<threads x items> (a block per line), name_tiles and name_take.
std::string sort_cuda_name(ir::DType);
std::string sort_line_cuda_name(ir::DType, const sort_cuda_tuning::Line&);
// For 64-bit keys from another kernel: name_tiles.
inline constexpr const char* sort_keys_cuda_name = "sort_keys";
// Merges keys of this many bytes; the kernel's own name.
std::string sort_merge_cuda_name(size_t key_bytes);
inline size_t sort_key_bytes(ir::DType t) { return ir::size_of(t) == 8 ? 8 : 4; }

}  // namespace ingot::kernels
