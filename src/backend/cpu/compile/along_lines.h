// Convolutions whose images and results lie along lines, as [N, C, H, W]: what kernels/conv/lines/run/lines.h can compute.
#pragma once
#include <vector>

#include "backend/site.h"

namespace ingot::backend::cpu {

// Per index of results: its step in the result, and in B and each operand that the body loads.
struct LineResults {
  std::vector<ir::Dim> steps;
  std::vector<std::vector<ir::Dim>> loads;
};
// How many neighbouring outputs a line has; nullopt if vectors cannot go along lines. `map`: from the indices of results and the summed ones to `a`.
std::optional<int64_t> line_length(const ir::AffineMap& map, const StridedLayout& a, const LineResults& kept, const FusedBody& body);

}  // namespace ingot::backend::cpu
