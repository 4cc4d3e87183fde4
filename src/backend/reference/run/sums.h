// Sums of products over some indices, with an epilogue: both GEMM and depthwise convolution.
#pragma once
#include <memory>
#include <vector>

#include "backend/reference/run/body.h"
#include "kernels/run/index_map.h"

namespace ingot::backend::reference {

using kernels::IndexMap;

// How A is read: through a map with strides [rank][indices], or by A's own strides if rank is 0.
struct MapSteps {
  size_t rank, indices;
  std::span<const int64_t> steps;
  size_t sizes() const { return rank == 0 ? 0 : indices + rank; }
};

// Reads the rest of a step's constants: the body, over a domain of this rank. `good`: the step's own constants are valid. Error (format) names `step`.
Body read_sums(FieldReader&, const char* step, bool good, const MapSteps&, size_t domain, size_t operands, size_t sizes);

// An index of the sum: the strides of one step in A (0 is read outside A) and in B.
struct SumIndex {
  IndexMap::Index a;
  int64_t b_step = 0;
};

struct Sums {
  IndexMap map;                             // of A, with the indices below
  std::vector<std::vector<SumIndex>> kept;  // per axis of the body's domain: the indices merged in it, the last one fastest
  std::vector<SumIndex> summed;
  bool floating = true;
  bool encoded = false;                     // B holds the int8 numbers of an encoded weight
  Bound body;
  size_t per_worker = 0;                    // bytes of scratch
};

// The map of an A that is read by its strides: index i is axis i.
IndexMap straight(const TensorRef& a);
// Runs one element of the body's domain at a time. Operands: A, B, then the body's.
kernels::Resolved resolve_sums(std::shared_ptr<Sums>, const kernels::Call&);
void run_sums(const kernels::Call&);

}  // namespace ingot::backend::reference
