// Convolutions with vectors along lines of outputs, for images and results that lie as [N, C, H, W]: both are read and written as they lie.
//
// Lines whose windows never leave the image are read in place. Others are copied first, a few at a time, with zeros around them. With a stride the copy has the
// elements of each remainder side by side. So all outputs have the same taps, and neighbouring outputs read neighbouring elements.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/run/kernel.h"

namespace ingot::kernels {

// What a kernel multiplies, in terms of its own operands.
struct LineProblem {
  struct Kept {
    int64_t to, bias, b;               // steps in the result, the bias and B
  };
  TensorRef a;                         // without data
  std::span<const int64_t> steps;      // [rank of A][indices], as resolve_index_map has them
  std::span<const int64_t> sizes;      // the extent of each index, first those of results; then the offset along each axis of A
  std::vector<Kept> kept;              // per index of results
  int64_t columns = 1, to_column = 0, bias_column = 0;  // several results for each of them, from the same windows
  // B: a row per combination of summed indices. Strided, or in panels of `panel` columns.
  int64_t panel = 0;
  std::vector<int64_t> b_summed;       // strided: steps along the summed indices,
  int64_t b_column = 0;                // and along columns
  bool has_bias = false, clamps = false;
  float low = 0, high = 0;
};

struct LinePlan;
// Null if images or results do not lie along lines. resolve_index_map must have accepted the map.
std::shared_ptr<const LinePlan> line_plan(const LineProblem&, int workers);
size_t scratch_of(const LinePlan&);
// Outputs of a line.
int64_t line_length(const LinePlan&);
void run_lines(const LinePlan&, const std::byte* a, const std::byte* b, const std::byte* bias, std::byte* to, std::byte* scratch, Workers&);

}  // namespace ingot::kernels
