// Weights that a device has no room for: which of them stay there, and when the others are copied to it, ahead of the steps that read them. Plain numbers: no device is needed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/program.h"

namespace ingot::runtime {

// A weight that steps read: of Plan::weights, or of the target's derived ones.
struct ReadWeight {
  bool derived = false;
  uint32_t index = 0;
  size_t bytes = 0;  // with what kernels may read behind it, in steps of the device's alignment
};

// What the functions of a plan read.
struct WeightReads {
  std::vector<ReadWeight> weights;  // each once, in the order in which steps first read them
  // Per function and step: numbers of `weights`, each once.
  std::vector<std::vector<std::vector<uint32_t>>> steps;
  WeightReads() = default;
  WeightReads(const std::vector<LoadedFunction>& functions, std::span<const size_t> weight_bytes, std::span<const size_t> derived_bytes, size_t alignment);
  size_t bytes() const;
};

// Which weights stay on the device.
struct Split {
  std::vector<bool> streamed;  // per WeightReads::weights
  size_t resident_bytes = 0, streamed_bytes = 0;
  size_t ring_bytes = 0;       // room for those of any step twice: for those that are read, and those that come
  size_t least = 0;            // the least limit that there is a split for
};
// Those that stay and the greater of (the ring and `arena`) and `making`, which making one weight takes, are not more than `limit`. Error (out_of_memory) naming the least limit.
// Large ones stay where the ring would else take much of the room, small ones because a copy costs more than they do; the rest stays and goes in turn, so that copies
// are spread over the steps.
Split split_weights(const WeightReads&, size_t limit, size_t arena, size_t making);

// The copies of each function, and where its steps find what was copied.
struct Streaming {
  struct Copy {
    uint32_t weight;           // of WeightReads::weights
    const std::byte* from;     // in memory of the host
    size_t offset, bytes;      // in the ring
  };
  // What one step waits for.
  struct Load {
    uint32_t step;             // reads it
    uint32_t after;            // the last step that reads what lies there before; none: no step of this run does
    std::vector<Copy> copies;
  };
  static constexpr uint32_t none = UINT32_MAX;
  struct OfFunction {
    std::vector<Load> loads;   // in their order; neither `step` nor `after` goes back
    std::map<std::tuple<uint32_t, bool, uint32_t>, size_t> places;  // of (step, whether derived, index): offset in the ring
  };
  size_t ring_bytes = 0;
  std::map<const plan::Program*, OfFunction> functions;
  std::vector<const std::byte*> weights, derived;  // where streamed ones lie on the host; null for others
};
// `steps`: what each reads of the streamed weights. The ring holds those of any step twice. Without `from`.
Streaming::OfFunction plan_loads(const WeightReads&, const Split&, std::span<const std::vector<uint32_t>> steps);

}  // namespace ingot::runtime
