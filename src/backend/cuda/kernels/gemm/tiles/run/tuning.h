// What Hopper's tiles take, by their number in `large_tiles` (tiles_args.h). H100 and H200: docs/performance-notes/gemms_cuda.md.
#pragma once
#include <cstddef>

namespace ingot::kernels::gemm::tiles_tuning {

// Microseconds of a block: a step along K when it shares the multiprocessor, a step when it has it alone, and a tile's epilogue. Zero: the tile has no room for floats.
struct Microseconds {
  double step, step_alone, epilogue;
};
struct OfTile {
  Microseconds halves, floats;
};
inline constexpr OfTile times[] = {{{0.40, 0.40, 3}, {0.488, 0.349, 3.218}},
                                   {{0.33, 0.6, 2.0}, {0.199, 0.419, 2.799}},
                                   {{0.30, 0.39, 1.4}, {0.165, 0.324, 1.741}},
                                   {{0.17, 0.17, 1.1}, {0.101, 0.204, 1.333}},
                                   {{0.30, 0.30, 3}, {0.194, 0.169, 3.723}},
                                   {{0.47, 0.44, 2.5}, {0.47, 0.47, 2.5}},
                                   {{0.505, 0.48, 4.4}, {}},
                                   {{0.66, 0.54, 6}, {}}};

// Bytes of a column (an estimate) of operands that are constant over rows, which are loaded before the kernel multiplies.
inline constexpr size_t max_column_bytes = 64;

}  // namespace ingot::kernels::gemm::tiles_tuning
