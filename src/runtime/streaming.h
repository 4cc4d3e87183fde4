// Weight streaming: decides which weights stay on a device that has no room for all, and when the others are copied to it, ahead of the steps that read them.
// Works on plain numbers, so it needs no device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// A weight that steps read: one of Plan::weights, or one of the target's derived tensors.
struct ReadWeight {
  bool derived = false;
  uint32_t index = 0;
  size_t bytes = 0;  // padded_bytes(): with the bytes that kernels may read after it
};

// The weights that the functions of a plan read.
struct WeightReads {
  std::vector<ReadWeight> weights;  // each once, in the order in which steps first read them
  // Per function and step: indices in `weights`, each once.
  std::vector<std::vector<std::vector<uint32_t>>> steps;
  WeightReads() = default;
  WeightReads(const std::vector<LoadedFunction>& functions, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, size_t alignment);
  size_t bytes() const;
};

// Which weights stay on the device.
struct Split {
  std::vector<bool> streamed;  // per WeightReads::weights
  size_t resident_bytes = 0, streamed_bytes = 0;
  size_t ring_bytes = 0;       // twice the streamed weights of the largest step: one half is read while the other is filled
  size_t least = 0;            // the smallest limit that works
};
// Chooses so that resident weights + max(ring + `arena`, `making`) <= `limit`. `arena`: memory of a run; `making`: memory that preparing one weight takes. Error
// (out_of_memory) names the smallest limit that works.
// The largest weights stay while the ring would otherwise take much of the room. Small ones stay because a copy costs more than their bytes. The others are
// alternately kept and streamed, so that copies are spread over the steps.
Split split_weights(const WeightReads&, size_t limit, size_t arena, size_t making);

// The copies of each function, and where its steps find the copied weights.
struct Streaming {
  struct Copy {
    uint32_t weight;           // index in WeightReads::weights
    const std::byte* from;     // host memory
    size_t offset, bytes;      // in the ring
  };
  // The copies that one step waits for.
  struct Load {
    uint32_t step;             // the step that reads them
    uint32_t after;            // the last step that reads the old content of their places; none: no step of this run does
    std::vector<Copy> copies;
  };
  static constexpr uint32_t none = UINT32_MAX;
  struct OfFunction {
    std::vector<Load> loads;   // in order: `step` and `after` never decrease
    std::map<std::tuple<uint32_t, bool, uint32_t>, size_t> places;  // (step, is derived, index) -> offset in the ring
  };
  size_t ring_bytes = 0;
  std::map<const plan::Program*, OfFunction> functions;
  std::vector<const std::byte*> weights, derived;  // host addresses of the streamed ones; null for the others
};
// The loads of one function. `steps`: per step, the weights that it reads, as in WeightReads::steps. Copy::from is not set.
Streaming::OfFunction plan_loads(const WeightReads&, const Split&, std::span<const std::vector<uint32_t>> steps);

}  // namespace ingot::runtime
