// Parameters and names of the CUDA kernels of order_segments.
//
// Few places: each block has some segments, and reads the whole index for their places. Many: the places are split into buckets of neighbouring segments, tile by tile, and a block sorts each bucket. Places are
// counted, never ordered, by atomic operations, so the order does not depend on timing.
#pragma once
#include "backend/cuda/kernels/run/axes.h"

#define INGOT_CUDA_ORDER_SEGMENTS \
  struct OrderSegmentsParameters { \
    unsigned long status, index, order, ends; \
    unsigned long counts, bucket_ends, places, segments_of; /* u32 [tiles, buckets]; [buckets]; of each place in its bucket: the place, the segment */ \
    long count, segments; \
    long index_step, order_step, ends_step; \
    long of_block; /* segments of a block that reads the whole index */ \
    long tile, tiles, buckets; \
    int bucket_bits, wrap; /* a bucket has 2^bucket_bits segments */ \
  };

namespace ingot::kernels {

INGOT_CUDA_ORDER_SEGMENTS

inline constexpr const char *order_at_once_cuda_name = "order_segments_at_once", *count_buckets_cuda_name = "order_segments_count",
                            *split_in_buckets_cuda_name = "order_segments_split", *order_buckets_cuda_name = "order_segments_buckets";

}  // namespace ingot::kernels
