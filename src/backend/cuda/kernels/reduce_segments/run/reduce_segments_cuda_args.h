// Parameters and names of the CUDA kernels of reduce_segments.
//
// A group of threads has one segment, of up to `part_rows` rows (tuning.h), and some elements of it. Longer segments are cut where the order is at a multiple of it: other groups combine each part, and a second
// kernel the parts of a segment. All combine in turn, so results do not depend on timing.
#pragma once
#include <string>

#include "backend/cuda/kernels/run/axes.h"
#include "ir/dtype.h"
#include "kernels/reduce_segments/run/reduce_segments_args.h"

// `parts`: for each part of the order the numbers of the segment at its beginning and of the one at its end, f64 for f64, else f32.
#define INGOT_CUDA_SEGMENTS \
  struct SegmentsCudaParameters { \
    unsigned long status, x, order, ends, out, parts; \
    unsigned long weights, weight_order, base; /* base 0: none */ \
    long rows, count, segments, elements; /* of x; of the order; elements of a row */ \
    long x_row, order_step, ends_step, out_row, base_row; \
    long weight_rows, weight_row, weight_order_step; \
    long part_count; \
    int group, groups; /* threads of a group; groups of a segment */ \
    CudaAxes<3> element_axes; /* x, out, base */ \
    CudaAxes<1> weight_axes; \
  };

namespace ingot::kernels {

INGOT_CUDA_SEGMENTS

// Kernels: name_V for V elements of a load, name_V_join. With weights also name_V_one, for V above 1: elements of a load have one weight.
std::string reduce_segments_cuda_name(const ReduceSegmentsArgs&, ir::DType);

}  // namespace ingot::kernels
