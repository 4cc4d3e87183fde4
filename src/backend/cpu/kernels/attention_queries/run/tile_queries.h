// Products of one query with keys and values where they are, one table per instruction set.
#pragma once
#include <cstdint>

#include "ir/dtype.h"

namespace ingot::kernels {

// Rows of keys or values: their type, their address, and elements from one to the next. Elements of a row are neighbours.
struct KeyRows {
  ir::DType type;
  const void* data;
  int64_t step, count;
};

// Queries, scores, weights and sums are doubles for rows of double, else floats.
struct QueryOps {
  // scores[t] = the dot product of the query and row t, of `length` elements.
  void (*scores)(const KeyRows&, void* scores, const void* query, int64_t length);
  // sums[e] = sums[e] * keep + the sum of weights[t] * row t [e]
  void (*sums)(const KeyRows&, void* sums, const void* weights, double keep, int64_t length);
};

extern const QueryOps query_ops_portable, query_ops_avx2, query_ops_avx512;

}  // namespace ingot::kernels
