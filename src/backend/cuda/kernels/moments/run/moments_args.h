// Parameters and names of the CUDA kernels of moments.
//
// Blocks compute partial sums: over some places for adjacent columns, if groups of columns are summed over places; otherwise over some elements of a row. A
// second kernel merges the parts. Squares are summed around one element of the part; merging shifts them to the common mean.
#pragma once
#include <string>

#include "backend/cuda/kernels/moments/run/tuning.h"
#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"

// A part is a sum and a sum of squares (two f32) over `unit` elements at each of `chunk` places; a row has `chunks` times `own` parts.
#define INGOT_CUDA_MOMENTS \
  struct MomentsCudaParameters { \
    unsigned long in, sums, squares, parts; \
    long rows, groups;          /* results; those in a row of columns */ \
    long length, step, columns; /* places (or elements of a row), from one to the next, columns */ \
    long chunk, chunks, tiles, own, unit; \
    long width; /* vectors of columns that a block's threads read side by side */ \
    CudaAxes<1> from;           /* of rows of columns, or of the results */ \
    CudaAxes<1> elements;       /* of a row */ \
    CudaAxes<2> results; \
  };

namespace ingot::kernels {

INGOT_CUDA_MOMENTS

// Kernels: name_columns_V_U (V: elements per load, U: elements per part), name_rows, and moments_merge.
std::string moments_cuda_name(ir::DType);
inline constexpr const char* moments_merge_cuda_name = "moments_merge";

}  // namespace ingot::kernels
