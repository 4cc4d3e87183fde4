// What the kernels of moments take on CUDA, and what they are called.
//
// Blocks have parts of the sums: of some places by neighbouring columns where groups of columns are summed over places, else of some elements of a row. A second
// kernel puts parts together. Squares are summed around an element of the part, and parts around the mean that they have together.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"

// A part is a sum and squares (two f32), of `unit` elements of each of `chunk` places; those of a row are `chunks` times `own` of them.
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

inline constexpr int moments_threads = 256;

// The kernels are name_columns_V_U (neighbours that a thread reads at once, those that are one part), name_rows and moments_merge.
std::string moments_cuda_name(ir::DType);
inline constexpr const char* moments_merge_cuda_name = "moments_merge";

}  // namespace ingot::kernels
