// Sums of products over some indices, with an epilogue: both GEMM and depthwise convolution.
#pragma once
#include <memory>
#include <vector>

#include "backend/reference/run/body.h"
#include "kernels/run/index_map.h"
#include "kernels/run/role.h"

namespace ingot::backend::reference {

using kernels::IndexMap;

// How A is read: through a map with strides [rank][indices], or by A's own strides if rank is 0.
struct MapSteps {
  size_t rank, indices;
  std::span<const int64_t> steps;
  size_t sizes() const { return rank == 0 ? 0 : indices + rank; }
};

// Reads the rest of a step's constants: the body, over a domain of this rank. `good`: the step's own constants are valid. `roles`: of the operands in front of the
// body's. Error (format) names `step`.
Body read_sums(FieldReader&, const char* step, bool good, const MapSteps&, size_t domain, std::span<const kernels::Role> roles, size_t operands, size_t sizes);

// Strides, or a place, in B, and in the scales and zeros of its blocks.
struct InB {
  int64_t number = 0, scale = 0, zero = 0;
  InB& operator+=(const InB& x) { return *this = {number + x.number, scale + x.scale, zero + x.zero}; }
  InB operator*(int64_t n) const { return {number * n, scale * n, zero * n}; }
};

// An index of the sum: the strides of one step in A (0 is read outside A) and in B.
struct SumIndex {
  IndexMap::Index a;
  InB b = {};
};

struct Sums {
  std::vector<kernels::Role> roles;         // of the operands in front of the body's
  IndexMap map;                             // of A, with the indices below
  std::vector<std::vector<SumIndex>> kept;  // per axis of the body's domain: the indices merged in it, the last one fastest
  std::vector<SumIndex> summed;
  bool floating = true;
  bool encoded = false;                     // B holds the int8 or uint8 numbers of an encoded weight
  InB expert;                               // from the B of one expert to the next: row_ends says which rows are its own
  Bound body;
  size_t per_worker = 0;                    // bytes of scratch
};

// The map of an A that is read by its strides: index i is axis i.
IndexMap straight(const TensorRef& a);
// The operand of this role; null: the step has none.
const TensorRef* find(const Sums&, std::span<const TensorRef> operands, kernels::Role);
// Runs one element of the body's domain at a time.
kernels::Resolved resolve_sums(std::shared_ptr<Sums>, const kernels::Call&);
void run_sums(const kernels::Call&);

}  // namespace ingot::backend::reference
