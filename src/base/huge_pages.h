// Huge pages, for our own memory (buffer.h) and for that of others' allocators.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace ingot {

inline constexpr size_t huge_page = size_t{2} << 20;

// Asks Linux to back memory that is not written yet with huge pages: one page fault instead of 512. Less than a whole one is left as it is.
inline void ask_for_huge_pages(void* memory, size_t bytes) {
  constexpr uintptr_t page = 4096;
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = at / page * page, end = (at + bytes + page - 1) / page * page;
  if ((at + huge_page - 1) / huge_page < (at + bytes) / huge_page) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace ingot
