// How small matrices are divided among workers of a CPU. Estimates are measured by `python bench/operators.py --only linalg --threads 2`.
#pragma once
#include <cstdint>

#include "ir/op.h"

namespace ingot::kernels::small_matrix_tuning {

// Multiplications of vectors of a task at least: some 5 microseconds of an AMD EPYC at half of its peak, longer than it takes to wake a worker (docs/performance-notes/calls_and_threads.md). An estimate.
inline constexpr int64_t work_of_task = 20000;

// Matrices of one vector at most: floats of AVX-512. Columns of a right side that are solved together: an inverse, whose right side is as wide as the largest matrix, is one block.
inline constexpr int max_lanes = 16;
inline constexpr int64_t columns_at_once = ir::max_matrix;
// Rows up to which rows are exchanged by masks; with more, exchanging them lane by lane costs less: an estimate.
inline constexpr int rows_by_mask = 8;

}  // namespace ingot::kernels::small_matrix_tuning
