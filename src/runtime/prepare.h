// What a change of some weights redoes: a part of a prepare function.
#pragma once
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// Steps of prepare in their order, and what they touch.
struct PreparePart {
  plan::Program program;
  LoadedFunction loaded;        // of `program`
  std::vector<bool> weights;    // read, per Plan::weights
  std::vector<bool> derived;    // written whole, per ForTarget::derived
  PreparePart() = default;
  PreparePart(PreparePart&&) = delete;  // `loaded` points here
};

// Fills `out` with the steps that make some derived weights (per ForTarget::derived) and all that depends on changed weights (per Plan::weights). A step may write a part
// of a buffer: then all who write to it run.
void find_part(const LoadedFunction& prepare, const std::vector<bool>& derived, const std::vector<bool>& changed, PreparePart& out);

}  // namespace ingot::runtime
