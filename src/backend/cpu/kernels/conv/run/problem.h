// What every kernel of the family reads: a convolution as a GEMM whose A is read through a map. Constants, operands and sizes are the matmul step's
// (kernels/matmul/run/matmul_args.h). For several groups the body's domain is [batch.., M, G N] instead of [batch.., G, .., M, N]: the columns of groups are adjacent.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels/fused/run/program.h"
#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/index_map.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::conv {

struct Constants {
  bool packed;
  size_t batch_rank;
  GemmMap map;
  std::shared_ptr<const Program> body;
  bool grouped;
  size_t map_sizes() const { return batch_rank + map.m_rank + map.k_rank + map.rank; }
  size_t domain_batch() const { return batch_rank - (grouped ? 1 : 0); }
};

// RunKernel::load of the family; the result is Constants.
std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes);

// A step's operands and sizes, checked.
struct Problem {
  Bound bound;
  int64_t m, n, k, groups = 1;
  size_t group_axis = SIZE_MAX;
  IndexMap map;
  int64_t group_step() const { return group_axis == SIZE_MAX ? 0 : static_cast<int64_t>(map.indices[group_axis].step); }  // in A
};
// Error (format) if they do not fit, or if the image and B are not of this type.
Problem checked(const Call&, ir::DType type = ir::DType::f32);

// Error (format).
[[noreturn]] void refuse(const char* what);

// The last index of M, whose range is a line, and the indices of results before it, without that of groups.
struct Lines {
  std::vector<IndexMap::Index> before;
  IndexMap::Index line;
};
Lines lines_of(const IndexMap&, size_t batch_rank, size_t m_rank, size_t group_axis);

inline size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace ingot::kernels::conv
