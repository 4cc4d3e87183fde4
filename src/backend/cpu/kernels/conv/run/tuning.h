// The numbers behind the costs of convolutions, in cycles of one core. Fitted to the times in bench/results/offers-*.jsonl (`python bench/offers.py`): AMD EPYC with AVX-512, two cores, one
// thread, 29 November 2026. `tests/plans/test_offers.py` says what choices by them lose.
#pragma once
#include <cstdint>

namespace ingot::kernels::conv::tuning {

inline constexpr double cycles_per_nanosecond = 3;  // the same for all kernels: it decides nothing between them

// Each vector of products, where a tile has two vectors of columns, or one, or half of one (of AVX2, for groups); along lines; of several groups; along the elements of a tap.
inline constexpr double of_two_vectors = 0.51, of_one_vector = 0.47, of_half_vector = 0.34, of_lines = 0.46, of_groups = 0.55, of_dots = 0.55;
inline constexpr double tile = 80;  // to begin and end a register tile,
inline constexpr double part_tile = 60;  // and where its last vector of columns is not full
inline constexpr double tap_of_tile = 5;  // to begin a tap in it
inline constexpr int64_t outputs_of_tile = 14;
// A tile reads its panel of B once, a vector for each element of a window: from the first-level cache, or from the second one if the panel is larger. Tiles of few outputs wait for it.
inline constexpr double vector_from_l1 = 1, vector_from_l2 = 2.7;
inline constexpr int64_t l1_of_panel = 24 << 10;  // bytes: what the image leaves of a first-level cache of 32 KB
// Along lines: a vector of outputs of a column, and each of its taps.
inline constexpr double vector_of_line = 3.5, tap_of_line = 0.15;
// Of the image's copy: an element, and a run of elements at one remainder of the outputs' step, which is about as long as a line of outputs. With steps of 1, 2, and more.
struct Copy {
  double element, run;
};
inline constexpr Copy copy_of_line{0.19, 15}, copy_of_two{0.35, 2}, copy_of_steps{0.35, 20};
inline constexpr int64_t shortest_line = 12;  // outputs: vectors along shorter lines are mostly empty
// Rows of windows that are copied for the GEMM: each run of neighbours, and each element. Its tiles, and those of half a panel.
inline constexpr double copied_tap = 15, copied_element = 0.35, tile_of_rows = 122, half_tile_of_rows = 120;
// A sum of the lanes of a vector, and an output of several of them.
inline constexpr double sum_of_lanes = 5.5, output_of_dots = 2;
// Copies into another order of axes that compile makes for an offer: an element of the image, and one of the result.
inline constexpr double ordered_image = 0.15, ordered_result = 0.4;
// Winograd's transformation of a window, for each vector: a product of one of its 16 values, to begin and store such a sum, the outputs; for each vector of channels the image; the weights.
inline constexpr double of_winograd = 0.55, winograd_sum = 5, winograd_results = 40, winograd_image = 30, winograd_weights = 28;
// A result whose columns are not neighbours in memory is stored one by one.
inline constexpr double scattered_result = 4;

}  // namespace ingot::kernels::conv::tuning
