// The numbers of the costs of convolutions; rates are the machine's (base/machine.h). Where no other source is named, they are fitted together to bench/results/offers-*.jsonl: AMD EPYC (Zen 4,
// 3.69 GHz) with AVX-512, and an Intel Xeon with AVX2 and with AVX-512, one thread, `python bench/offers.py`, 29 November 2026. What depends on the width of vectors is in the formulas (cost.cpp): tiles
// have 14 outputs with AVX-512 and 6 with AVX2. `tests/plans/test_offers.py` says what choices by them lose.
#pragma once
#include <cstdint>

namespace ingot::kernels::conv::tuning {

// The time of one product of vectors, in products of vectors at the machine's peak: in a tile of two vectors of columns, of one, of half a one (of AVX2, for groups); along lines; of several
// groups; along the elements of a tap. load_*: the time of a vector that is loaded once for several products. The fit gave 0.41 for lines, too little with many columns: 0.66 is by
// bench/convolutions.py against the build of before (docs/performance-notes/convolutions_cpu.md, 0111).
inline constexpr double of_two_vectors = 1.02, of_one_vector = 0.95, of_half_vector = 0.83, of_lines = 0.66, of_groups = 0.83, of_dots = 0.9, load_of_lines = 1.29,
                        load_of_dots = 0.45;
// The same unit, for Winograd's transformation of a window: a product of one of its 16 values, storing such a sum, beginning a tile, the outputs; for each vector of channels, the image; the weights.
inline constexpr double of_winograd = 0.8, winograd_sum = 2.3, winograd_tile = 95, winograd_results = 118, winograd_image = 205, winograd_weights = 62;
// The same unit, along lines: a vector of outputs of a column, and each of its taps.
inline constexpr double vector_of_line = 11.5, tap_of_line = 0.185;

// The same unit: beginning a register tile, ending each vector of its outputs, and a last vector of columns that is not full. A tile of groups has 6 outputs.
inline constexpr double tile = 33, vector_of_tile = 5.5, part_tile = 104, tile_of_groups = 85;
// The same unit, for the GEMM: a tile, a tile of half a panel, and each vector of a row.
inline constexpr double tile_of_rows = 220, half_tile_of_rows = 145, vector_of_row = 1.54;

inline constexpr double tap_of_tile = 9.4;  // cycles, to begin a tap in a tile
// The rate at which a tile that waits for its panel reads it, as a share of the rate that `ingot doctor --measure` finds for the cache. It may be above 1: a core reads faster than it sums.
inline constexpr double rate_of_l1 = 1.3, rate_of_l2 = 0.526;
inline constexpr int64_t l1_of_panel = 24 << 10;  // bytes: what the image leaves of a first-level cache of 32 KB
// Cycles to copy an image along lines: for an element, and for a run of elements (those with one remainder by the outputs' step: about a line of outputs). With steps of 1, of 2, and longer ones.
struct Copy {
  double element, run;
};
inline constexpr Copy copy_of_line{0.374, 17.7}, copy_of_two{0.404, 2.8}, copy_of_steps{0.535, 9.2};
inline constexpr int64_t shortest_line = 12;  // outputs: vectors along shorter lines are mostly empty
// Cycles to copy rows of windows for the GEMM: for each run of adjacent elements, and for each element.
inline constexpr double copied_tap = 23, copied_element = 0.6;
// Cycles to add the two halves of a sum's lanes, and for an output that adds several such sums.
inline constexpr double sum_of_lanes = 2.55, output_of_dots = 11.9;
// Cycles of the copies into another order of axes that compile makes for an offer: for an element of the image, and for one of the result.
inline constexpr double ordered_image = 0.3, ordered_result = 0.8;
// Cycles to store one element of a result whose columns are not adjacent in memory.
inline constexpr double scattered_result = 8;

// The least work that is divided among workers, in products that the machine's peak computes in one wake-up: with less, workers take longer to start than to compute (docs/performance-notes/calls_and_threads.md).
inline constexpr double least_wakes = 1.7;
inline constexpr int64_t min_segment = 24;  // outputs of a line that a task computes at least: two tiles
// Of the third-level cache's rate, what panels of B come at that tiles do not prefetch (the same: 8 rows by 768 x 768 take 94 microseconds, by matmul 83).
inline constexpr double rate_behind_l2 = 2;
// Bytes, of a second-level cache of 1 MB: a larger image is read from memory; half of it holds the lines of several units; all panels of B that stay in it together with A.
inline constexpr int64_t l2_of_image = 1 << 20, half_l2 = 256 << 10, l2_of_panels = 1 << 20;
// If reading all of B takes more than this share of a worker's time, each task goes over all lines.
inline constexpr double share_of_reading = 0.2;
// The rate of panels of B that other workers read too, as a share of the third-level cache's rate (docs/performance-notes/calls_and_threads.md: 30 GB/s).
inline constexpr double rate_of_l3 = 0.32;

// Elements up to which a tap is merged with its neighbours, and of the merged tap: going from tap to tap costs more than such short ones themselves (docs/performance-notes/convolutions_cpu.md).
inline constexpr int64_t short_tap = 16, merged_tap = 64;

// Bytes of a block of Winograd's transformed image and sums, and of all weights that are transformed once and kept: parts of a second-level cache of 1 MB. Windows of a block, at least: two
// register tiles (docs/performance-notes/convolutions_cpu.md).
inline constexpr int64_t l2_of_winograd = 832 << 10, kept_weights = 288 << 10, windows_of_block = 28;

// Of matmul's cost, what a kernel must come to for a plain product to be its own: of 30 products of 1 to 512 rows both are within a tenth of each other in 24 (AMD EPYC, AVX-512,
// `python bench/offers.py --form alone --only product`).
inline constexpr double gain_of_product = 0.9;

// Along lines. The most taps of a sum, the most taps whose places are listed, and the largest step between outputs of a line or between what they read, in elements: bounds of a plan's memory
// and time, not measured.
inline constexpr int64_t max_line_taps = 1 << 16, max_line_rows = 4096, max_line_step = 8;
// The most columns of a result that are adjacent in memory, since they are stored element by element: the last layers of 1 to 3 columns that docs/performance-notes/convolutions_cpu.md measures.
inline constexpr int64_t max_adjacent_columns = 4;
// An image is copied, though no window leaves it, if more than `reading_tiles` tiles of columns read more than `copied_taps` taps from many places (convolutions_cpu.md: 1 x 1 of 256 channels; the
// numbers are estimates).
inline constexpr int64_t reading_tiles = 4, copied_taps = 32;
// From `skipping_taps` taps on, a tile skips planes and lines outside the image; from `taps_of_range` taps of one plane on, if its sums are kept and continued: estimates.
inline constexpr int64_t skipping_taps = 64, taps_of_range = 16;
// Bytes of a block's copy. With one column it is read once, and stays in a first-level cache of 32 KB; otherwise in a quarter of a second-level cache of 1 MB. With more than `max_block` lines are refused
// (convolutions_cpu.md; the bound is an estimate).
inline constexpr size_t l1_of_block = 24 << 10, l2_of_block = 256 << 10, max_block = 4 << 20;
// The least work that is divided, in the same unit as least_wakes: a step with less is one task (docs/performance-notes/calls_and_threads.md: 10 microseconds and less do not pay on an EPYC).
inline constexpr double least_wakes_of_lines = 6.8;
// The least vectors of a line's block: enough for tiles of two or three vectors each (an estimate).
inline constexpr int64_t vectors_of_block = 6;
// Vectors along columns are chosen if they save at least this share of the vectors along lines: an estimate.
inline constexpr double share_of_empty = 0.05;

// The largest distance of taps, in elements of A, that are still read as one run; outputs at the ends of lines that are computed for all lines together (convolutions_cpu.md, with paddings of 3);
// products between two prefetches, so that these do not come all at once (an estimate).
inline constexpr int64_t longest_step = 16, longest_end = 3, products_of_request = 16;
// Taps of all lines that are computed together, places of a line with taps of their own, lines together, elements of zeros: bounds of a worker's memory, not measured.
inline constexpr int64_t max_list_taps = 4096, max_places = 1 << 16, max_units = 16, max_zeros = 2048;
// The most taps along an axis that a cost looks at one by one: a hostile plan may have any number. It decides nothing: no convolution of bench/ has more than 16.
inline constexpr int64_t max_counted = 4096;

// Winograd: sums of 128 terms for the channels of one window; a row of channels must not be a multiple of `elements_of_page`, or rows would share sets of a cache; bytes of one row of windows, which a
// block cannot cut: not measured, a row must fit a third-level cache of 32 MB.
inline constexpr int64_t max_channel_blocks = 16, elements_of_page = 1024, max_row_of_windows = 8 << 20;

// Terms of one sum: after so many a tile saves its sums and starts again at zero, since sums of sums are more accurate than one long sum (docs/decisions/0051: of 384 terms they
// would be 1 % faster).
inline constexpr int64_t longest_sum = 128;
// Outputs of the largest tile of several groups; taps that tiles of threes take at once, a line of a 3 x 3 kernel; columns of tiles along the elements of a tap, and outputs of the largest of these, with
// AVX-512 and with less: what the registers hold.
inline constexpr int outputs_of_groups = 6, taps_of_threes = 3, max_columns_of_dots = 4, outputs_of_wide_dots = 6, outputs_of_dots = 3;
// Along lines: vectors of outputs of the largest tile; outputs of a tile whose vectors are along columns, with AVX-512; axes of the image, a bound of a plan's memory.
inline constexpr int64_t max_vectors_of_line = 8;
inline constexpr int outputs_across = 14, max_axes = 8;
// Columns of a panel whose rows are copied as one vector of AVX2.
inline constexpr int64_t columns_of_narrow_panel = 8;
// Winograd: elements along a side of a window of F(2 x 2, 3 x 3), a fact of the transformation; planes of a kernel, a bound of a worker's memory.
inline constexpr int64_t side_of_window = 4;
inline constexpr int64_t max_planes = 8;

// Elements that are assumed for an open size if the site does not give its usual value: not measured.
inline constexpr int64_t unknown_size = 64;

}  // namespace ingot::kernels::conv::tuning
