#include "runtime/run_blocks.h"

#include <fmt/format.h>

namespace ingot::runtime {

void RunBlocks::fit(const Resolved& r, size_t ring, Allocator& from, std::string_view owner) {
  const size_t scratch = r.scratch_bytes + 64;
  if (arena_.size() < r.arena_bytes) arena_ = reserve(r.arena_bytes, from, fmt::format("the arena of {}", owner));
  if (scratch_.size() < scratch) scratch_ = reserve(scratch, from, fmt::format("the scratch memory of {}", owner));
  if (ring_.size() != ring) ring_ = MemoryBlock(), ring_ = reserve(ring, from, "the ring for streamed weights");
}

}  // namespace ingot::runtime
