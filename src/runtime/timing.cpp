#include "runtime/timing.h"

#include "base/error.h"
#include "runtime/program.h"

namespace ingot::runtime {

std::vector<Timing> time(const plan::Plan& plan, const Placement& place, std::span<const Timing> known, double seconds) {
  // Not a real address: resolving a kernel looks at sizes only.
  constexpr uintptr_t nowhere = 4096;
  Memory memory;
  for (const plan::Weight& w : plan.weights) {
    memory.weights.push_back(reinterpret_cast<const std::byte*>(nowhere));
    memory.weight_bytes.push_back(w.bytes);
  }
  for (const plan::Derived& d : plan.targets[place.target].derived) {
    memory.derived.push_back(reinterpret_cast<std::byte*>(nowhere));
    memory.derived_bytes.push_back(d.bytes);
  }
  for (const plan::Function& f : plan.functions) {
    LoadedFunction loaded = load_function(f, f.programs[place.target], *place.backend);
    std::vector<int64_t> usual;
    for (const plan::Symbol& s : f.symbols) usual.push_back(s.opt);
    try {
      resolve(loaded, plan, memory, usual, inline_workers());
    } catch (const Error& e) {
      if (e.code != Code::invalid_input) throw;
      // The usual sizes contradict each other: the plan runs at others, and these are not timed.
    }
  }
  return place.backend->time(known, seconds);
}

}  // namespace ingot::runtime
