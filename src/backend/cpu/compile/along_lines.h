// Convolutions whose images and results lie along lines, as [N, C, H, W]: what kernels/direct_conv/run/lines.h can compute.
#pragma once
#include <vector>

#include "backend/offer.h"

namespace ingot::backend::cpu {

// How many outputs neighbouring in memory a line has; nullopt if vectors cannot go along lines. `kept`: for each index of results, its step in the result, and
// in what else the body reads, by operand. `map`, from these and the summed indices, to `a`.
struct LineResults {
  std::vector<ir::Dim> steps;                // per index of results
  std::vector<std::vector<ir::Dim>> loads;   // per operand that the body loads
};
std::optional<int64_t> line_length(const ir::AffineMap& map, const StridedLayout& a, const LineResults& kept, const FusedBody& body);

}  // namespace ingot::backend::cpu
