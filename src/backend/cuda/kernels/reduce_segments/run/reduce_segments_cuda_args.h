// Parameters and names of the CUDA kernels of reduce_segments.
//
// A group of threads has one segment, of up to `part_rows` rows (tuning.h), and some elements of it. Longer segments are cut where the order is at a multiple of it: a second kernel combines each part, a third one the
// parts of a segment. All combine in order, so results do not depend on timing.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/reduce_segments/run/reduce_segments_args.h"

// `parts`: for each part of the order the numbers of the segment at its beginning and of the one at its end, f64 for f64, else f32.
#define INGOT_CUDA_SEGMENTS \
  struct SegmentsCudaParameters { \
    unsigned long status, x, order, ends, out, parts; \
    long rows, count, segments, elements; /* of x; of the order; elements of a row */ \
    long x_row, order_step, ends_step, out_row; \
    int group, groups; /* threads of a group; groups of a segment */ \
    CudaAxes<2> element_axes; /* x, out */ \
  };

namespace ingot::kernels {

INGOT_CUDA_SEGMENTS

// Kernels: name_V for V elements of a load, name_V_parts, name_V_join.
std::string reduce_segments_cuda_name(ReduceSegmentsArgs::Kind, ir::DType);

}  // namespace ingot::kernels
