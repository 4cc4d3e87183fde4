// Sums of products over some of a list of indices: what a GEMM and a depthwise convolution are, and the body behind each sum.
#pragma once
#include <memory>
#include <vector>

#include "backend/reference/run/body.h"
#include "kernels/run/index_map.h"

namespace ingot::backend::reference {

using kernels::IndexMap;

// How A is read: by steps [rank][indices] along its axes, or by its strides where the rank is 0.
struct MapSteps {
  size_t rank, indices;
  std::span<const int64_t> steps;
  size_t sizes() const { return rank == 0 ? 0 : indices + rank; }
};

// What the constants of a step have behind its own: the body, over a domain of so many axes. `good`: whether its own are. Error (format), which names `step`.
Body read_sums(FieldReader&, const char* step, bool good, const MapSteps&, size_t domain, size_t operands, size_t sizes);

// An index of the sum: how far a step of it goes in A (outside of A there are zeros) and in B.
struct SumIndex {
  IndexMap::Index a;
  int64_t b_step = 0;
};

struct Sums {
  IndexMap map;                             // of A; its indices are those below
  std::vector<std::vector<SumIndex>> kept;  // per axis of the body's domain: the indices that it counts, the last one fastest
  std::vector<SumIndex> summed;
  bool floating = true;
  bool encoded = false;                     // B is the int8 numbers of an encoded weight
  Bound body;
  size_t per_worker = 0;                    // bytes of scratch
};

// A read by its strides: index i is its axis i.
IndexMap straight(const TensorRef& a);
// Element by element of the body's domain; operands are A, B, then the body's.
kernels::Resolved resolve_sums(std::shared_ptr<Sums>, const kernels::Call&);
void run_sums(const kernels::Call&);

}  // namespace ingot::backend::reference
