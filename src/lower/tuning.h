// The numbers by which graphs are rewritten for every target. EPYC and H200; where a line names no measurement it is an estimate, or a bound of compile time that decides nothing in the models of bench/
// (`python bench/compile_time.py`).
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::lower::tuning {

// Rows for each column from which a gate is multiplied into the weight: the scaled weight is packed in each run (docs/performance-notes/fused_bodies.md, 0081).
inline constexpr int64_t min_rows_of_column = 4;
// Pairs of elements and bins up to which a histogram's counts are one reduction that compares them: 20 us on an H200, in place of four steps of some 3 us (an estimate). Floats count so far exactly.
inline constexpr int64_t max_pairs = int64_t{1} << 22;
// Channels from which an image that comes from outside is copied to channels last: with fewer there are kernels for channels first.
inline constexpr int64_t min_channels_last = 4;
// Parts of a concatenation that becomes a choice between them, and operators that read it: each of them computes the choice.
inline constexpr size_t max_chosen_parts = 4, max_chosen_readers = 3;
// Branches of a sum that are looked at, and steps up from it; places of a small kernel in a large one that are tried.
inline constexpr size_t max_branches = 16;
inline constexpr int max_branch_steps = 48;
inline constexpr int64_t max_kernel_places = 4096;
// Steps up in which two products are compared; steps up in an activation that a model writes out, values in it, and points at which it is compared with a known function.
inline constexpr int max_fused_steps = 16, max_activation_steps = 16, compared_points = 48;
inline constexpr size_t max_activation_values = 48;
// Values that are looked at to choose a layout.
inline constexpr size_t max_layout_values = 64;

// Added to a score, a number up to this excludes an element from attention, as models write it; of float16, whose least is -65504.
inline constexpr double masked_score = -1000000000, masked_half_score = -60000;

}  // namespace ingot::lower::tuning
