// Huge pages for memory of others' allocators, as buffer.h asks for its own.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace ingot {

// Asks Linux to back memory that is not written yet with huge pages: one page fault instead of 512. Memory of less than 4 MiB may hold none.
inline void ask_for_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t page = 4096;
  constexpr size_t huge = size_t{2} << 20;
  if (bytes < 2 * huge) return;
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = at / page * page, end = (at + bytes + page - 1) / page * page;
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace ingot
