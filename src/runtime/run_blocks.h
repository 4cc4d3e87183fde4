// The memory of runs that is kept between them: arena, scratch, and the ring of streamed weights.
#pragma once
#include <string_view>

#include "runtime/program.h"

namespace ingot::runtime {

class RunBlocks {
 public:
  // Makes room for runs at these sizes. `owner`: for errors.
  void fit(const Resolved&, size_t ring, Allocator&, std::string_view owner);
  RunMemory memory() { return {arena_.data(), scratch_.data(), ring_.data()}; }
  size_t arena_bytes() const { return arena_.size(); }
  void free() noexcept { *this = RunBlocks(); }

 private:
  MemoryBlock arena_, scratch_, ring_;
};

// Makes the block larger if it is too small.
inline void grow(MemoryBlock& block, size_t bytes, Allocator& from, std::string_view what) {
  if (block.size() < bytes) block = reserve(bytes, from, what);
}

}  // namespace ingot::runtime
