// What every kernel of the matmul family reads: the step's constants, its operands and sizes, checked (kernels/matmul/run/matmul_args.h).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backend/cpu/kernels/fused/run/program.h"
#include "backend/cpu/kernels/matmul/run/rows.h"
#include "kernels/matmul/run/matmul_args.h"
#include "kernels/run/kernel.h"

namespace ingot::kernels::matmul {

struct Constants {
  bool packed;
  bool in_order;
  int batch_rank;
  Groups groups;
  std::optional<GemmMap> map;
  std::shared_ptr<const Program> body;
  // Among the step's sizes: those of the map, after M, N and K.
  size_t map_sizes() const { return map ? static_cast<size_t>(batch_rank + map->m_rank + map->k_rank + map->rank) : 0; }
};

// RunKernel::load of the family; the result is Constants.
std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes);

struct Problem {
  Bound bound;
  int64_t m, n, k, batch = 1;
  std::optional<MappedRows> rows = std::nullopt;  // of A, if it is read through a map
  bool f32 = true;  // the sums; else doubles, or integers in 64 bits
};
// Error (format) if they do not fit.
Problem checked(const Call&);

inline int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace ingot::kernels::matmul
