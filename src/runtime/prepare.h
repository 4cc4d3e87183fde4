// The part of a prepare function that must run again after some weights changed.
#pragma once
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// Some steps of prepare, in order, and the tensors that they use.
struct PreparePart {
  plan::Program program;
  LoadedFunction loaded;        // of `program`
  std::vector<bool> weights;    // read, per Plan::weights
  std::vector<bool> derived;    // written completely, per ForTarget::derived
  std::vector<bool> reads;      // read but not written, per ForTarget::derived
  PreparePart() = default;
  PreparePart(PreparePart&&) = delete;  // `loaded` points into this object
};

// Fills `out` with the steps that compute the given derived tensors (per ForTarget::derived) and everything that depends on changed weights (per
// Plan::weights). If one step that writes a part of a buffer runs, all steps that write to the buffer run.
void find_part(const LoadedFunction& prepare, const std::vector<bool>& derived, const std::vector<bool>& changed, PreparePart& out);

}  // namespace ingot::runtime
